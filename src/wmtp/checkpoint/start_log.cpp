#include "wmtp/checkpoint/start_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/file_system.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::checkpoint {

void append_start(const std::filesystem::path& run_dir, const StartLine& start) noexcept try {
  OrderedJson line{
      {"time", utc_timestamp()}, {"job", nullptr},       {"restart_count", start.restart_count},
      {"source", start.source},  {"world", start.world}, {"resumed_step", nullptr}};
  if (!start.job.empty()) line["job"] = start.job;
  if (start.resumed_step) line["resumed_step"] = *start.resumed_step;
  const std::string text = line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  const std::filesystem::path path = run_dir / "restarts.jsonl";
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  // One write, so that a kill leaves a line whole or out.
  if (!file || ::write(file.get(), text.data(), text.size()) < 0)
    throw storage::FileError(errno, "write", path);
} catch (const std::exception& error) {
  log::warn("checkpoint", "this start is not in restarts.jsonl: {}", error.what());
}

}  // namespace wmtp::checkpoint
