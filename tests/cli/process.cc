// SPDX-License-Identifier: Apache-2.0
// See process.h.
#include "tests/cli/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace slip::test {

namespace {

using Clock = std::chrono::steady_clock;

int open_for(const fs::path& file, int flags) { return ::open(file.c_str(), flags | O_CLOEXEC, 0600); }

std::string joined(const std::vector<std::string>& arguments) {
  std::string out = "slipstream";
  for (const std::string& a : arguments) out += " " + a;
  return out;
}

}  // namespace

Process::Process(const fs::path& folder, const std::vector<std::string>& arguments, const std::string& input,
                 const fs::path& stdout_file)
    : out_(stdout_file.empty() ? folder / "stdout" : stdout_file), err_(folder / "stderr") {
  write_bytes(folder / "stdin", input);
  const int in = open_for(folder / "stdin", O_RDONLY), out = open_for(out_, O_WRONLY | O_CREAT | O_TRUNC);
  const int err = open_for(err_, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<char*> argv;
  std::string binary = SLIP_BINARY;
  argv.push_back(binary.data());
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const std::string cache = (fs::temp_directory_path() / "slipstream-test-cache").string();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setenv("XDG_CACHE_HOME", cache.c_str(), 0);  // what --decoder auto measures is no user's
    ::signal(SIGHUP, SIG_DFL);                     // under nohup it comes ignored
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  for (const int fd : {in, out, err}) ::close(fd);
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::send(int signal) {
  if (pid_ > 0) ::kill(pid_, signal);
}

Ran Process::wait(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  Ran ran;
  int status = 0;
  pid_t got = 0;
  while ((got = ::waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (got == pid_) {
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    pid_ = -1;
  }
  if (fs::is_regular_file(out_)) ran.out = read_bytes(out_);
  ran.err = read_bytes(err_);
  return ran;
}

Cli::Cli() {
  std::string name = (fs::temp_directory_path() / "slipstream-cli-XXXXXX").string();
  folder_ = ::mkdtemp(name.data());
  work_ = folder_ / ".process";
  fs::create_directory(work_);
}

Cli::~Cli() {
  std::error_code ec;
  fs::remove_all(folder_, ec);
}

Ran Cli::run(const std::vector<std::string>& arguments, const std::string& input) {
  return Process(work_, arguments, input).wait();
}

json::value Cli::run_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Ran ran = run(arguments);
  EXPECT_EQ(ran.code, 0) << joined(arguments) << "\n" << ran.err;
  auto value = parse_json(ran.out, joined(arguments));
  EXPECT_TRUE(value) << value.error().message << "\n" << ran.out;
  return value ? *value : json::value(json::object());
}

void Cli::expect_one_line(const Ran& ran, int code, std::string_view names) {
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_TRUE(ran.err.starts_with("slipstream: ")) << ran.err;
  const size_t expected = ran.err.find(": expected "), got = ran.err.find(", got");
  EXPECT_NE(expected, std::string::npos) << ran.err;
  EXPECT_NE(got, std::string::npos) << ran.err;
  EXPECT_LT(expected, got) << ran.err;
  EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1) << "one line: " << ran.err;
  EXPECT_NE(ran.err.find(names), std::string::npos) << "expected \"" << names << "\" in " << ran.err;
}

void Cli::refused_in_words(const std::vector<std::string>& arguments, int code, std::string_view names) {
  SCOPED_TRACE(joined(arguments));
  const Ran ran = run(arguments);
  expect_one_line(ran, code, names);
  EXPECT_EQ(ran.out, "");
}

void Cli::refused(std::vector<std::string> arguments, int code, std::string_view names) {
  refused_in_words(arguments, code, names);
  arguments.emplace_back("--json");
  SCOPED_TRACE(joined(arguments));
  const Ran ran = run(arguments);
  expect_one_line(ran, code, names);
  const auto value = parse_json(ran.out, "stdout");
  ASSERT_TRUE(value) << value.error().message << "\n" << ran.out;
  ASSERT_EQ(missing_keys(*value, {"error"}), "");
  const json::value& error = value->at("error");
  ASSERT_EQ(missing_keys(error, {"kind", "exit_code", "message"}), "");
  EXPECT_EQ(error.at("exit_code").as_int64(), code);
  EXPECT_EQ("slipstream: " + std::string(error.at("message").as_string()) + "\n", ran.err);
}

std::string Cli::write(const std::string& name, std::string_view bytes) const {
  write_bytes(folder_ / name, bytes);
  return path(name);
}

std::string Cli::write_ppm(const std::string& name, int width, int height) const {
  return write(name, "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
                         std::string(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, '\x50'));
}

std::string Cli::copy_fixture(const std::string& relative, const std::string& name) const {
  fs::create_directories(folder_ / name);
  for (const auto& entry : fs::directory_iterator(fixture(relative)))
    if (entry.is_regular_file()) write_bytes(folder_ / name / entry.path().filename(), read_bytes(entry.path()));
  return path(name);
}

std::string fixture(const std::string& relative) { return (fs::path(SLIP_FIXTURES) / relative).string(); }

std::string read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void write_bytes(const fs::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(out) << file;
}

std::string missing_keys(const json::value& object, const std::vector<std::string>& wanted) {
  if (!object.is_object()) return "not an object: " + json::serialize(object);
  std::string missing;
  for (const std::string& key : wanted)
    if (!object.get_object().contains(key)) missing += key + " ";
  return missing;
}

std::string demo_model() { return (fs::path(SLIP_SOURCE_DIR) / "models/demo").string(); }

std::optional<std::string> shared_data(const std::string& relative) {
  const fs::path at = fs::path(SLIP_SHARED_DATA) / relative;
  if (!fs::exists(at)) return std::nullopt;
  return at.string();
}

}  // namespace slip::test
