#include "wmtp/cli/launcher/rank_environment.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include "wmtp/cli/launcher/child_process.h"
#include "wmtp/cli/launcher/launch_notes.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

constexpr std::array<std::string_view, 12> kOurNames{
    "RANK",           "LOCAL_RANK",          "WORLD_SIZE",       "LOCAL_WORLD_SIZE",
    "GROUP_RANK",     "WMTP_RUN_TOKEN",      "WMTP_RENDEZVOUS",  "WMTP_RESTART_COUNT",
    "WMTP_LIFE_LINE", "WMTP_LAUNCH_GRACE_S", "WMTP_ON_TERMINAL", kNotesVariable};
// An outer torchrun or pod would otherwise speak to our ranks through these.
constexpr std::array<std::string_view, 5> kForeignPrefixes{"TORCHELASTIC_", "PET_", "ROLE_",
                                                           "GROUP_", "MASTER_"};

std::string_view name_part(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

bool is_ours(std::string_view name) {
  return name == kConsoleRanksVariable ||
         std::find(kOurNames.begin(), kOurNames.end(), name) != kOurNames.end();
}

bool is_foreign(std::string_view name) {
  return std::any_of(kForeignPrefixes.begin(), kForeignPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_valid_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvw"
                              "xyz0123456789_") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> rank_environment(std::span<const std::string> base, const RankEnv& env,
                                          std::span<const std::string> extra) {
  std::set<std::string_view> replaced;
  for (const std::string& variable : extra) replaced.insert(name_part(variable));
  std::vector<std::string> result;
  bool threads_set = replaced.contains("OMP_NUM_THREADS");
  for (const std::string& variable : base) {
    const std::string_view name = name_part(variable);
    if (is_ours(name) || is_foreign(name) || replaced.contains(name)) continue;
    threads_set = threads_set || name == "OMP_NUM_THREADS";
    result.push_back(variable);
  }
  result.insert(result.end(), extra.begin(), extra.end());
  const auto set = [&](std::string_view name, const auto& value) {
    result.push_back(fmt::format("{}={}", name, value));
  };
  set("RANK", env.node * env.local_world + env.local_rank);
  set("LOCAL_RANK", env.local_rank);
  set("WORLD_SIZE", env.num_nodes * env.local_world);
  set("LOCAL_WORLD_SIZE", env.local_world);
  set("GROUP_RANK", env.node);
  set("GROUP_WORLD_SIZE", env.num_nodes);
  if (!env.run_token.empty()) set("WMTP_RUN_TOKEN", env.run_token);
  set("WMTP_RENDEZVOUS", env.rendezvous);
  set("WMTP_RESTART_COUNT", env.restart_count);
  set("WMTP_LIFE_LINE", kLifeLineFd);
  set("WMTP_LAUNCH_GRACE_S", env.grace_s);
  if (env.on_terminal) set("WMTP_ON_TERMINAL", 1);
  if (env.tee_all) set(kConsoleRanksVariable, "all");
  if (!threads_set) set("OMP_NUM_THREADS", env.threads);
  return result;
}

void check_extra_variable(std::string_view text) {
  const std::string_view name = name_part(text);
  if (name.size() == text.size() || !is_valid_name(name))
    throw Error(ErrorKind::config, "launch", fmt::format("--env {}: not NAME=VALUE", text),
                "for example --env NCCL_DEBUG=INFO");
  if (is_ours(name) || is_foreign(name))
    throw Error(ErrorKind::config, "launch", fmt::format("--env {}: the launcher sets it", name),
                "leave it out; --nproc decides ranks and world size");
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** at = environ; *at; ++at) variables.emplace_back(*at);
  return variables;
}

std::string make_run_token() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error(ErrorKind::internal, "launch", "the kernel gave no random bytes");
  return to_hex(bytes);
}

int num_visible_gpus(int num_installed, const char* visible_devices) {
  if (!visible_devices) return num_installed;
  std::string_view rest = visible_devices;
  int num_visible = 0;
  // As the driver does it: the first entry that names no device hides all that follow.
  while (!rest.empty() && num_visible < num_installed) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    int index = -1;
    std::from_chars(entry.data(), entry.data() + entry.size(), index);
    const bool by_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!by_uuid && (index < 0 || index >= num_installed)) break;
    ++num_visible;
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  return num_visible;
}

int num_installed_gpus() {
  std::error_code missing;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", missing)) {
    const std::string name = entry.path().filename().string();
    const bool numbered = name.size() > 6 && name.find_first_not_of("0123456789", 6) == name.npos;
    if (name.starts_with("nvidia") && numbered) ++count;
  }
  return count;
}

}  // namespace wmtp::cli
