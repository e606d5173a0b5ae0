#include "wmtp/tracking/mlflow/spool/spool_files.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/tracking/mlflow/spool/record.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr const char *kRunFile = "run.json", *kEndFile = "end.json", *kAckedFile = "acked",
                     *kRejectedFile = "rejected.jsonl";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 20;

constexpr std::array<std::pair<RunStatus, std::string_view>, 4> kStatusNames = {
    {{RunStatus::running, "RUNNING"},
     {RunStatus::finished, "FINISHED"},
     {RunStatus::failed, "FAILED"},
     {RunStatus::killed, "KILLED"}}};

// Values of another type than the one asked for count as missing: the file is none of ours then,
// or was damaged.
template <class T>
T value_or(const Json& object, const char* name, T otherwise) {
  const auto at = object.find(name);
  if (at == object.end()) return otherwise;
  try {
    return at->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

std::string_view text_of_status(RunStatus status) {
  for (const auto& [known, name] : kStatusNames)
    if (known == status) return name;
  return "?";
}

}  // namespace

SpoolFiles::SpoolFiles(storage::FileSystem& files, std::filesystem::path folder)
    : files_(files), folder_(std::move(folder)) {}

std::string SpoolFiles::text_of(std::string_view name) const {
  if (files_.status(folder_ / name).kind == storage::FileKind::missing) return {};
  try {
    return storage::read_text(files_, folder_, name, folder_.string(), kMaxFileBytes);
  } catch (const Error& error) {
    log::warn("mlflow", "{}; it is left out", printable(error.fact()));
    return {};
  }
}

std::optional<Json> SpoolFiles::json_of(std::string_view name) const {
  const std::string text = text_of(name);
  if (text.empty()) return std::nullopt;
  try {
    Json json = parse_json(text, (folder_ / name).string());
    if (json.is_object()) return json;
    log::warn("mlflow", "{} is no JSON object; it is left out", (folder_ / name).string());
  } catch (const Error& error) {
    log::warn("mlflow", "{}; it is left out", printable(error.fact()));
  }
  return std::nullopt;
}

void SpoolFiles::replace(std::string_view name, std::string_view text, Sync sync) {
  const std::filesystem::path temporary = folder_ / fmt::format(".{}.tmp", name);
  // One of a start that was killed.
  if (files_.status(temporary).kind != storage::FileKind::missing) files_.remove_file(temporary);
  const auto file = files_.create_file(temporary);
  file->write(std::as_bytes(std::span(text.data(), text.size())));
  if (sync == Sync::yes) file->sync();
  file->close();
  files_.rename(temporary, folder_ / name);
  if (sync == Sync::yes) files_.sync_folder(folder_);
}

std::optional<SpooledRun> SpoolFiles::run() const {
  const std::optional<Json> json = json_of(kRunFile);
  if (!json) return std::nullopt;
  const auto text = [&](const char* name) { return value_or<std::string>(*json, name, ""); };
  return SpooledRun{
      text("run_uid"),
      text("experiment"),
      text("run_name"),
      text("tracking_uri"),
      value_or<std::int64_t>(*json, "start_ms", 0),
      text("run_id"),
      text("experiment_id"),
      text("artifact_uri"),
      value_or<std::map<std::string, std::int64_t>>(*json, "sent_up_to", {}),
  };
}

void SpoolFiles::save(const SpooledRun& run) {
  const OrderedJson json{{"run_uid", run.run_uid},
                         {"experiment", run.experiment},
                         {"run_name", run.run_name},
                         {"tracking_uri", run.tracking_uri},
                         {"start_ms", run.start_ms},
                         {"run_id", run.run_id},
                         {"experiment_id", run.experiment_id},
                         {"artifact_uri", run.artifact_uri},
                         {"sent_up_to", run.sent_up_to}};
  replace(kRunFile, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n',
          Sync::yes);
}

std::optional<SpooledEnd> SpoolFiles::end() const {
  const std::optional<Json> json = json_of(kEndFile);
  if (!json) return std::nullopt;
  SpooledEnd end;
  const auto status = value_or<std::string>(*json, "status", "");
  for (const auto& [known, name] : kStatusNames)
    if (name == status) end.status = known;
  end.exit_code = value_or<int>(*json, "exit_code", 0);
  end.reason = value_or<std::string>(*json, "reason", "");
  end.end_ms = value_or<std::int64_t>(*json, "end_ms", 0);
  end.is_sent = value_or<bool>(*json, "sent", false);
  return end;
}

void SpoolFiles::save(const SpooledEnd& end) {
  const OrderedJson json{{"status", text_of_status(end.status)},
                         {"exit_code", end.exit_code},
                         {"reason", end.reason},
                         {"end_ms", end.end_ms},
                         {"sent", end.is_sent}};
  replace(kEndFile, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n',
          Sync::yes);
}

void SpoolFiles::remove_end() {
  if (files_.status(folder_ / kEndFile).kind == storage::FileKind::missing) return;
  files_.remove_file(folder_ / kEndFile);
  files_.sync_folder(folder_);
}

Acked SpoolFiles::acked() const {
  const std::string text = text_of(kAckedFile);
  std::vector<std::uint64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || next == end || number > kMaxSeq) break;
    numbers.push_back(number);
    at = next + 1;
    if (*next == '\n' && at == end) return {numbers[0], {numbers.begin() + 1, numbers.end()}};
    if (*next != ' ') break;
  }
  if (!text.empty())
    log::warn("mlflow", "{} makes no sense: all records are sent again",
              (folder_ / kAckedFile).string());
  return {};
}

void SpoolFiles::save(const Acked& acked) {
  std::string text = fmt::format("{}", acked.seq);
  for (const std::uint64_t seq : acked.later) text += fmt::format(" {}", seq);
  replace(kAckedFile, text + '\n', Sync::no);
}

void SpoolFiles::reject(const OrderedJson& line) {
  std::string text = text_of(kRejectedFile);
  text += line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
  if (text.size() < kMaxFileBytes) replace(kRejectedFile, text, Sync::yes);
}

}  // namespace wmtp::tracking::mlflow
