// Flags of torchrun and accelerate.
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/config/migrate/script_flags.h"
#include "wmtp/config/migrate/script_values.h"
#include "wmtp/core/printable.h"

namespace wmtp::config {
namespace {

// The flags of `wmtp launch` that a flag of torchrun or accelerate is; empty: none.
std::string launch_words(const ScriptFlag& flag) {
  constexpr std::pair<std::string_view, const char*> kTaken[] = {
      {"nproc-per-node num-processes nproc", "--nproc"},
      {"nnodes num-machines", "--nnodes"},
      {"node-rank machine-rank", "--node-rank"},
      {"master-addr main-process-ip", "--master-addr"},
      {"master-port main-process-port", "--master-port"},
      {"max-restarts", "--max-restarts"},
      {"log-dir", "--log-dir"},
  };
  if (flag.values.empty()) return "";
  const std::string& value = flag.values[0];
  for (const auto& [names, ours] : kTaken)
    if (has_name(names, flag.name))
      return fmt::format(" {} {}", ours, value == "gpu" ? "auto" : shell_word(value));
  if (flag.name != "rdzv-endpoint") return "";
  const std::size_t colon = std::min(value.rfind(':'), value.size());
  std::string words = " --master-addr " + shell_word(value.substr(0, colon));
  if (colon < value.size()) words += " --master-port " + shell_word(value.substr(colon + 1));
  return words;
}

}  // namespace

std::string take_launcher_flag(Rewriter& rewriter, const ScriptFlag& flag, Place place) {
  const OldEntry entry{flag.written, "", place, node_of_words(flag.values, place)};
  if (const std::string words = launch_words(flag); !words.empty()) {
    rewriter.record(entry, Change::Action::renamed, "wmtp launch" + words,
                    "a flag of the launcher");
    return words;
  }
  if (has_name("standalone rdzv-backend rdzv-id multi-gpu no-python", flag.name))
    rewriter.drop(entry, "ranks find each other by themselves");
  else if (has_name("mixed-precision use-fsdp", flag.name))
    take_script_flag(rewriter, flag, place);
  else
    rewriter.refuse(entry, "`wmtp launch` has no such flag");
  return "";
}

}  // namespace wmtp::config
