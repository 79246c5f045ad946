// SPDX-License-Identifier: Apache-2.0
// slipstream serve.
#include "cli/bars.h"
#include "cli/options.h"
#include "server/serve.h"

namespace slip::cli {

void serve_command(CLI::App& app, Chosen& chosen) {
  static server::ServeOptions o;
  static bool no_json = false;
  auto* c = app.add_subcommand("serve", "an HTTP server: OpenAI's chat completions, the openpi websocket, metrics, a page");
  add_model_flag(c, o.model, true);
  c->add_option("--host", o.host, "address to listen on");
  c->add_option("--port", o.port, "0: any that is free")->check(whole(0, 65535));
  c->add_option("--port-file", o.port_file, "write the port there once it is listened on");
  c->add_option("--name", o.name, "the model's name to clients (default: its folder's)");
  c->add_option("--allow-host", o.hosts,
                "without keys on a loopback address: a name beside localhost by which it may be asked; several");
  c->add_option("--api-key-file", o.api_key_file, "keys, one a line; without it everybody may ask");
  c->add_option("--key-limit", o.most_per_key, "requests of a key under way at most; 0: no limit")->check(whole(0, 100000));
  c->add_option("--media-path", o.media_path, "folder below which file:// images may lie; without it none may");
  c->add_option("--form", o.forms, "NAME=FILE: a JSON Schema that requests may name; several");
  c->add_option("--page", o.page_folder, "serve the page from this folder in place of the one built in");
  c->add_option("--metrics-prefix", o.metrics_prefix, "in front of the metrics' names (vllm: for dashboards made for it)");
  c->add_option("--drain-timeout", o.drain_timeout_s, "seconds that requests under way have after SIGTERM")->check(number(0, 3600));
  c->add_option("--deadline", o.deadline_ms, "milliseconds for requests that name no deadline; 0: none")->check(number(0, 1e9));
  c->add_option("--running", o.service.most_running, "requests under way at most")->check(whole(1, 1024));
  c->add_option("--waiting", o.service.most_waiting, "requests that wait at most; others get 503")->check(whole(0, 100000));
  c->add_option("--pass-budget", o.service.pass_budget_ms, "milliseconds of a pass that requests share: prompts are cut to it")
      ->check(number(1, 10000));
  c->add_option("--trajectory-head", o.engine.trajectory_head,
                "folder of a trajectory head, loaded at the start: requests with \"trajectory_head\": true are planned by it");
  c->add_option("--slots", o.engine.slots, "rows of the key/value cache, 129 at least; 0: 32768")->check(whole(0, 1 << 24));
  c->add_option("--workers", o.workers, "threads that read requests and images")->check(whole(1, 64));
  add_method_options(c, o.decoder);
  add_engine(c, o.engine);
  c->callback([&chosen] {
    chosen = {[] {
                Bars bars;
                return server::serve(o, bars.progress());
              },
              &no_json};
  });
}

}  // namespace slip::cli
