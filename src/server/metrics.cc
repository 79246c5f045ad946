// SPDX-License-Identifier: Apache-2.0
// See metrics.h. prometheus-cpp stays in here.
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>

#include "server/openai_reply.h"

namespace slip::server {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;
const Bounds kSeconds = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60};
const Bounds kRows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
const Bounds kRatios = {.25, .5, .75, .9, 1, 1.1, 1.25, 1.5, 2, 4};

const char* word_of(slipstream::ErrorKind kind) {
  using slipstream::ErrorKind;
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kBadInput:
      return "bad_input";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kCancelled:
      return "cancelled";
    default:
      return "internal";
  }
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::string prefix;
  std::map<std::string, std::string> labels;
  std::mutex mutex;  // of `told`
  slipstream::ServiceLoad told;

  Impl(const std::string& p, const std::string& model) : prefix(p), labels{{"model_name", model}} {}

  prometheus::Counter& counter(const std::string& name, const char* help, std::map<std::string, std::string> more = {}) {
    more.insert(labels.begin(), labels.end());
    return prometheus::BuildCounter().Name(prefix + name).Help(help).Register(registry).Add(more);
  }
  prometheus::Gauge& gauge(const std::string& name, const char* help) {
    return prometheus::BuildGauge().Name(prefix + name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const std::string& name, const char* help, const Bounds& bounds,
                                   std::map<std::string, std::string> more = {}) {
    more.insert(labels.begin(), labels.end());
    return prometheus::BuildHistogram().Name(prefix + name).Help(help).Register(registry).Add(more, bounds);
  }

  prometheus::Gauge& running = gauge("num_requests_running", "Requests under way");
  prometheus::Gauge& waiting = gauge("num_requests_waiting", "Requests that wait for a place");
  prometheus::Gauge& cache = gauge("kv_cache_usage_perc", "Share of the key/value cache that requests hold, 0 to 1");
  prometheus::Counter& prefix_queries =
      counter("prefix_cache_queries_total", "Rows of prompts that were looked for among kept ones");
  prometheus::Counter& prefix_hits = counter("prefix_cache_hits_total", "Rows of prompts that were found among kept ones");
  prometheus::Counter& image_hits = counter("image_cache_hits_total", "Images whose features were kept");
  prometheus::Counter& prompt_tokens = counter("prompt_tokens_total", "Rows of prompts");
  prometheus::Counter& generation_tokens =
      counter("generation_tokens_total", "Tokens of answers, those of all rollouts and forced ones included");
  prometheus::Histogram& iteration = histogram("iteration_tokens_total", "Rows of a pass", kRows);
  prometheus::Histogram& first = histogram(
      "time_to_first_token_seconds",
      "From when a request's whole body was there to its first field or text; its pictures, form and queue count", kSeconds);
  prometheus::Histogram& between = histogram("inter_token_latency_seconds", "Time of an answer per drawn token", kSeconds);
  prometheus::Histogram& whole =
      histogram("e2e_request_latency_seconds",
                "From when a request's whole body was there to its answer's end; its pictures, form and queue count", kSeconds);
  prometheus::Histogram& queued =
      histogram("request_queue_time_seconds", "Waiting for a place, from when pictures and form are ready", kSeconds);
  prometheus::Histogram& prefill = histogram("request_prefill_time_seconds", "Images and prompt", kSeconds);
  prometheus::Histogram& decode = histogram("request_decode_time_seconds", "Drafting and verifying", kSeconds);
  prometheus::Counter& drafts = counter("spec_decode_num_drafts_total", "Rounds that verified something");
  prometheus::Counter& draft_tokens = counter("spec_decode_num_draft_tokens_total", "Tokens that were drafted");
  prometheus::Counter& accepted = counter("spec_decode_num_accepted_tokens_total", "Drafted tokens that held");
  prometheus::Counter& deadline = counter("deadline_missed_total", "Requests that ended at their deadline");
  prometheus::Counter& frames = counter("frames_superseded_total", "Frames of a session that a newer one took the place of");
  prometheus::Counter& nan = counter("nan_rows_total", "Rows whose numbers were none");
  prometheus::Histogram& pass_rows = histogram("pass_rows", "Rows of a pass", kRows);
  prometheus::Histogram& ratio = histogram(
      "predicted_to_actual_ratio", "Predicted over actual time of a request, from when pictures and form are ready", kRatios);
  prometheus::Histogram& draft_pass = histogram("pass_seconds", "Time of a pass", kSeconds, {{"kind", "draft"}});
  prometheus::Histogram& prompt_pass = histogram("pass_seconds", "Time of a pass", kSeconds, {{"kind", "prefill"}});
  prometheus::Histogram& decode_pass = histogram("pass_seconds", "Time of a pass", kSeconds, {{"kind", "decode"}});
};

Metrics::Metrics(const std::string& prefix, const std::string& model) : impl_(std::make_unique<Impl>(prefix, model)) {}
Metrics::~Metrics() = default;

void Metrics::passed(const slipstream::PassShared& p) {
  Impl& m = *impl_;
  m.iteration.Observe(static_cast<double>(p.rows));
  m.pass_rows.Observe(static_cast<double>(p.rows));
  (p.draft ? m.draft_pass : p.prompt_rows > 0 ? m.prompt_pass : m.decode_pass).Observe(p.ms / 1000);
}

void Metrics::answered(const slipstream::Answer& a, const slipstream::Served& s, double first_ms, const char* reason,
                       double whole_ms) {
  Impl& m = *impl_;
  const slipstream::Statistics& n = a.statistics;
  const double served_ms = s.queue_ms + s.run_ms, all_ms = whole_ms > 0 ? whole_ms : served_ms;
  m.counter("request_success_total", "Requests that were answered", {{"finished_reason", reason}}).Increment();
  m.prompt_tokens.Increment(static_cast<double>(n.prompt_rows));
  m.generation_tokens.Increment(static_cast<double>(n.all_tokens));
  m.whole.Observe(all_ms / 1000);
  m.queued.Observe(s.queue_ms / 1000);
  m.prefill.Observe((n.encode_ms + n.prefill_ms) / 1000);
  m.decode.Observe((n.draft_ms + n.verify_ms) / 1000);
  m.first.Observe((first_ms > 0 ? first_ms : all_ms) / 1000);
  if (const int64_t drawn = n.tokens - n.forced_tokens; drawn > 0)
    m.between.Observe((n.draft_ms + n.verify_ms) / 1000 / static_cast<double>(drawn));
  m.drafts.Increment(static_cast<double>(n.rounds));
  m.draft_tokens.Increment(static_cast<double>(n.proposed));
  m.accepted.Increment(static_cast<double>(n.accepted));
  for (size_t i = 0; i < n.accepted_at.size(); ++i)
    m.counter("spec_decode_num_accepted_tokens_per_pos_total", "Drafted tokens that held, by their place among a round's drafts",
              {{"position", std::to_string(i)}})
        .Increment(static_cast<double>(n.accepted_at[i]));
  m.nan.Increment(static_cast<double>(n.nan_rows));
  if (s.predicted_ms > 0 && served_ms > 0) m.ratio.Observe(s.predicted_ms / served_ms);
}

void Metrics::rejected(const char* reason) {
  impl_->counter("requests_rejected_total", "Requests that were refused", {{"reason", reason}}).Increment();
}
void Metrics::cancelled(const char* reason) {
  impl_->counter("requests_cancelled_total", "Requests that nobody waited for any more", {{"reason", reason}}).Increment();
}
void Metrics::failed(slipstream::Fate fate, slipstream::ErrorKind kind) {
  using slipstream::Fate;
  if (fate == Fate::kFailed)
    impl_->counter("requests_failed_total", "Requests that ended with an error of the engine", {{"kind", word_of(kind)}})
        .Increment();
  const bool late = fate == Fate::kLate;
  if (late) impl_->deadline.Increment();
  if (fate == Fate::kFull || fate == Fate::kTooLate) rejected(fate == Fate::kFull ? "full" : "deadline");
  if (late || fate == Fate::kCancelled) cancelled(late ? "deadline" : "hang_up");
}
void Metrics::superseded() { impl_->frames.Increment(); }

std::string Metrics::text(const slipstream::ServiceLoad* load) {
  Impl& m = *impl_;
  if (load) {
    const std::lock_guard lock(m.mutex);
    m.running.Set(load->running);
    m.waiting.Set(load->waiting);
    m.cache.Set(load->pages > 0 ? static_cast<double>(load->pages_held) / load->pages : 0);
    m.prefix_queries.Increment(static_cast<double>(load->prompt_rows - m.told.prompt_rows));
    m.prefix_hits.Increment(static_cast<double>(load->prompt_rows_found - m.told.prompt_rows_found));
    m.image_hits.Increment(static_cast<double>(load->images_found - m.told.images_found));
    m.told = *load;
  }
  return prometheus::TextSerializer().Serialize(m.registry.Collect());
}

}  // namespace slip::server
