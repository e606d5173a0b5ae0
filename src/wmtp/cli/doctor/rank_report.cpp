#include "wmtp/cli/doctor/rank_report.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include "wmtp/cli/build_id.h"
#include "wmtp/cli/versions.h"
#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/printable.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

// "driver for CUDA 13.0, CUDA runtime 13.0, NCCL 2.27.5" in its parts; a driver may differ.
void add_gpu_versions(const std::string& note, RankReport& report) {
  std::size_t from = 0;
  while (from < note.size()) {
    const std::size_t end = std::min(note.find(", ", from), note.size());
    const std::string part = note.substr(from, end - from);
    const std::size_t number = part.find_last_of(' ');
    if (number != part.npos) {
      auto& versions = part.starts_with("driver") ? report.machine : report.versions;
      versions[part.substr(0, number)] = part.substr(number + 1);
    }
    from = end + 2;
  }
}

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {}", names.sysname, names.release) : "unknown";
}

std::string host_and_node(const comm::LaunchEnv& launch) {
  utsname names{};
  ::uname(&names);
  return launch.nodes > 1 ? fmt::format("{} (node {})", names.nodename, launch.node)
                          : std::string(names.nodename);
}

std::map<std::string, std::string> printable_texts(const Json& json) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : json.items())
    texts[printable(key)] = printable(value.get<std::string>());
  return texts;
}

tracking::GpuHealth gpu_from_json(const Json& json) {
  tracking::GpuHealth gpu;
  if (!json.at("temperature_c").is_null())
    gpu.temperature_c = json.at("temperature_c").get<unsigned>();
  if (!json.at("uncorrected_ecc").is_null())
    gpu.uncorrected_ecc = json.at("uncorrected_ecc").get<unsigned long long>();
  for (const Json& name : json.at("slowdowns"))
    gpu.slowdowns.push_back(printable(name.get<std::string>()));
  gpu.needs_reset = json.at("needs_reset").get<bool>();
  gpu.problem = printable(json.at("problem").get<std::string>());
  return gpu;
}

template <class Number>
OrderedJson number_or_null(const std::optional<Number>& number) {
  return number ? OrderedJson(*number) : OrderedJson();
}

}  // namespace

RankReport describe_rank(const comm::ProcessGroupSession& session, c10::Device device,
                         const std::optional<DiskSpeed>& disk) {
  RankReport report;
  report.rank = session.rank();
  report.host = host_and_node(session.launch());
  const Versions versions = find_versions();
  report.versions = {{"wmtp build", build_id()}, {"LibTorch", versions.libtorch_found}};
  if (failpoint::pass("doctor.versions") == failpoint::Action::damage)
    report.versions["wmtp build"] += "-other";
  report.machine = {{"kernel", kernel_release()}};
  if (versions.plugin_loaded) add_gpu_versions(versions.plugin_note, report);
  report.disk = disk;
  if (device.is_cuda())
    report.gpu = tracking::read_gpu_health(cuda_tables().services.device_info(device.index()).uuid);
  return report;
}

OrderedJson to_json(const RankReport& report) {
  OrderedJson json{
      {"rank", report.rank},       {"host", report.host}, {"versions", report.versions},
      {"machine", report.machine}, {"disk", nullptr},     {"gpu", nullptr}};
  if (report.disk)
    json["disk"] = {{"fsync_ms", report.disk->fsync_ms}, {"mb_per_s", report.disk->mb_per_s}};
  if (report.gpu)
    json["gpu"] = {{"temperature_c", number_or_null(report.gpu->temperature_c)},
                   {"uncorrected_ecc", number_or_null(report.gpu->uncorrected_ecc)},
                   {"slowdowns", report.gpu->slowdowns},
                   {"needs_reset", report.gpu->needs_reset},
                   {"problem", report.gpu->problem}};
  return json;
}

RankReport rank_report_from_json(const Json& json) {
  try {
    RankReport report;
    report.rank = json.at("rank").get<int>();
    report.host = printable(json.at("host").get<std::string>());
    report.versions = printable_texts(json.at("versions"));
    report.machine = printable_texts(json.at("machine"));
    if (const Json& disk = json.at("disk"); !disk.is_null())
      report.disk = DiskSpeed{disk.at("fsync_ms").get<double>(), disk.at("mb_per_s").get<double>()};
    if (const Json& gpu = json.at("gpu"); !gpu.is_null()) report.gpu = gpu_from_json(gpu);
    return report;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::data, "doctor",
                fmt::format("a rank's report cannot be read: {}", printable(error.what())));
  }
}

std::vector<RankReport> gather_reports(comm::Communicator& group, const RankReport& mine) {
  // What a driver or kernel says of itself need not be UTF-8.
  const std::string text = to_json(mine).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<RankReport> reports;
  for (const std::string& one : group.gather_bytes(text, 0, "reports"))
    reports.push_back(rank_report_from_json(parse_json(one, "the report of a rank")));
  return reports;
}

}  // namespace wmtp::cli
