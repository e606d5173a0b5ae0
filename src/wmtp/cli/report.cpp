#include "wmtp/cli/report.h"

#include <c10/util/Exception.h>
#include <iostream>

#include "wmtp/cli/error_file.h"
#include "wmtp/cli/standard_output.h"
#include "wmtp/core/log.h"
#include "wmtp/core/log/log_file.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/resource_limits.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tensor/cuda_error.h"
#include "wmtp/tracking/run_files.h"

namespace wmtp::cli {
namespace {

// An object, where logging.format has made diagnostics objects.
std::string text_for_stderr(const Session& session, const Error& error,
                            const nlohmann::ordered_json& fields) {
  if (session.json || !log::current().json) return "wmtp: " + printable(error.what()) + "\n";
  nlohmann::ordered_json line{{"type", "error"}, {"ts", utc_timestamp()}};
  line.update(fields);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Error as_error(const std::exception& thrown) {
  const auto* error = dynamic_cast<const Error*>(&thrown);
  // A call that failed for want of a descriptor or of memory says nothing about its file. Of a
  // configuration error or of saves that fail, the error itself is the better one.
  const bool own_words =
      error && (error->kind() == ErrorKind::config || error->module() == "checkpoint");
  if (own_words) return *error;
  if (dynamic_cast<const std::ios_base::failure*>(&thrown)) return standard_output_error();
  if (auto limit = as_limit_error(thrown)) return *std::move(limit);
  if (error) return *error;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&thrown)) {
    const std::string_view text = thrown.what();
    return {ErrorKind::config, "device", std::string(text.substr(0, text.find('\n'))),
            "lower training.batch_size or dataset.max_length, set activation_checkpointing: block, "
            "or use more ranks (docs/troubleshooting.md)"};
  }
  if (const auto* fault = dynamic_cast<const c10::AcceleratorError*>(&thrown)) {
    const ErrorKind kind = kind_of_cuda_error(fault->get_error_code());
    const std::string& text = fault->msg();
    return {kind, "device", text.substr(0, text.find('\n')), hint_of_cuda_error(kind)};
  }
  // NCCL and the store, where no call of comm/ stands between.
  if (const auto* lost = dynamic_cast<const c10::DistError*>(&thrown))
    return {ErrorKind::comm, "comm", lost->msg(), "a peer is gone or cannot be reached"};
  return {ErrorKind::internal, "internal", thrown.what(),
          "this is a bug in wmtp; please report it"};
}

int report(const Session& session, const Error& error) {
  const int code = static_cast<int>(exit_code(error.kind()));
  std::cout.exceptions(std::ios::goodbit);  // there is no error beyond this one
  const nlohmann::ordered_json fields{{"kind", name_of(error.kind())},
                                      {"code", code},
                                      {"message", printable(error.fact())},
                                      {"hint", printable(error.hint())},
                                      {"where", error.module()}};
  if (session.json) emit_json("error", fields);
  const bool told = session.json && !standard_output_failed();
  if (!told && !standard_output_is_closed()) std::cerr << text_for_stderr(session, error, fields);
  log::write_to_file(log::Level::error, error.module(),
                     error.hint().empty() ? error.fact() : error.fact() + "; " + error.hint());
  write_error_file(error.kind() != ErrorKind::comm, error.what(), error.where().function_name());
  return code;
}

void write_last_exit(const std::filesystem::path& run_dir, const LastExit& exit) noexcept try {
  const auto step_or_null = [](std::int64_t step) {
    return step < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(step);
  };
  const nlohmann::ordered_json text{{"code", exit.code},
                                    {"reason", exit.reason},
                                    {"step", step_or_null(exit.step)},
                                    {"committed_step", step_or_null(exit.committed_step)},
                                    {"rank", exit.rank},
                                    {"time", utc_timestamp()}};
  storage::write_file_atomically(
      run_dir / tracking::kLastExitFile,
      text.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
} catch (const std::exception& error) {
  log::warn("cli", "last_exit.json was not written: {}", error.what());
}

void forget_last_exit(const std::filesystem::path& run_dir) noexcept {
  std::error_code ignored;
  std::filesystem::remove(run_dir / tracking::kLastExitFile, ignored);
}

}  // namespace wmtp::cli
