// A stand-in for a run that uploads its checkpoints, to be killed at any moment. No LibTorch.
//   upload_storm JSON
// {"root", "bucket", "prefix", "wait_s", "part_bytes", "retries", "concurrency", "only" (a name)}
// Queues the folders `m-<N>steps` of the root, by N, each with its files, manifest.json last, and
// the pointer m-latest; what an earlier start left in <root>/.uploads goes up first. The last line
// of stdout is a JSON object. Exit code 0: all is up; 75: some is not. Failpoints as the program's.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "wmtp/core/failpoint.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/s3/queue/upload_queue.h"

namespace wmtp::s3 {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Options client_options(const Json& job) {
  Options options;
  options.bucket = job.at("bucket").get<std::string>();
  options.prefix = job.at("prefix").get<std::string>();
  options.part_bytes = job.value("part_bytes", options.part_bytes);
  options.retries = job.value("retries", options.retries);
  options.concurrency = job.value("concurrency", options.concurrency);
  options.first_wait = std::chrono::milliseconds(2);
  options.http.env = environment;
  return options;
}

std::int64_t step_of(const std::string& name) {
  return std::atoll(name.c_str() + 2);
}

QueueEntry entry_of(const fs::path& folder, bool is_newest) {
  QueueEntry entry;
  entry.name = folder.filename().string();
  entry.version = "1";
  for (const auto& found : fs::recursive_directory_iterator(folder))
    if (found.is_regular_file() && found.path().filename() != "manifest.json")
      entry.files.push_back({fs::relative(found.path(), folder).string(), found.file_size()});
  std::sort(entry.files.begin(), entry.files.end(),
            [](const QueuedFile& a, const QueuedFile& b) { return a.path < b.path; });
  entry.files.push_back({"manifest.json", fs::file_size(folder / "manifest.json")});
  if (is_newest) entry.pointers = {"m-latest"};  // what is added last is what a pointer names
  return entry;
}

std::vector<fs::path> folders_of(const fs::path& root, const std::string& only) {
  std::vector<fs::path> folders;
  for (const auto& found : fs::directory_iterator(root)) {
    const std::string name = found.path().filename().string();
    if (name.starts_with("m-") && (only.empty() || only == name)) folders.push_back(found.path());
  }
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) {
    return step_of(a.filename().string()) < step_of(b.filename().string());
  });
  return folders;
}

int run_storm(const Json& job) {
  storage::LocalFileSystem files;
  const fs::path root = job.at("root").get<std::string>();
  QueueOptions options;
  options.root = root;
  options.place = root / ".uploads" / "m";
  options.orphan_prefix = "m-";
  options.most_waiting = 100;
  options.first_wait = std::chrono::milliseconds(20);
  options.longest_wait = std::chrono::milliseconds(500);
  UploadQueue queue(files, open_session(client_options(job)), options);
  const std::vector<fs::path> folders = folders_of(root, job.value("only", std::string()));
  for (const fs::path& folder : folders) queue.add(entry_of(folder, folder == folders.back()));
  const bool is_done = queue.wait_until_empty(
      std::chrono::milliseconds(job.value("wait_s", 60) * 1000), [] { return false; });
  const QueueFigures figures = queue.figures();
  std::cout << OrderedJson{{"bytes_up", figures.bytes_up},
                           {"folders_up", figures.folders_up},
                           {"failed_tries", figures.failed_tries},
                           {"pending", figures.num_pending},
                           {"caller_s", figures.caller_s}}
                   .dump()
            << std::endl;
  return is_done ? 0 : 75;
}

}  // namespace
}  // namespace wmtp::s3

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const char* spec = std::getenv("WMTP_FAILPOINT");
    const char* hits = std::getenv("WMTP_FAILPOINT_LOG");
    wmtp::failpoint::configure({.spec = spec ? spec : "", .rank = 0, .log_path = hits ? hits : ""});
    return wmtp::s3::run_storm(wmtp::parse_json(argc > 1 ? argv[1] : "", "the argument"));
  } catch (const std::exception& thrown) {
    std::cerr << thrown.what() << std::endl;
    return 70;
  }
}
