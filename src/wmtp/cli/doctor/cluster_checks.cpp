#include "wmtp/cli/doctor/cluster_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "wmtp/comm/agreement.h"

namespace wmtp::cli {
namespace {

constexpr double kFarSkew_s = 0.1;      // logs of several nodes are put in order by time
constexpr double kSlowLatency_ms = 10;  // a step has hundreds of collectives
constexpr double kSlowLink_gb_s = 0.1;  // a network of 1 Gbit/s
constexpr unsigned kHot_c = 85;

std::string bytes_text(std::int64_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{} MiB", bytes >> 20);
  return bytes >= 1 << 10 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} B", bytes);
}

template <class Value>
double median_by(const std::vector<Value>& values, double (*number)(const Value&)) {
  std::vector<double> numbers;
  for (const Value& value : values) numbers.push_back(number(value));
  std::sort(numbers.begin(), numbers.end());
  return numbers.at(numbers.size() / 2);
}

Check check_ranks(const ClusterFindings& found) {
  std::set<std::string> hosts;
  for (const RankReport& rank : found.ranks) hosts.insert(rank.host);
  Check check{Health::ok,
              "cluster",
              fmt::format("{} ranks on {} hosts over {}, {}", found.ranks.size(), hosts.size(),
                          found.backend, found.where),
              "",
              {}};
  if (found.ranks.size() > 1) return check;
  check.health = Health::warn;
  check.fact = "one rank alone: there is nothing between ranks to look at";
  check.fix =
      "start it as the run is: wmtp launch --nproc N -- doctor --cluster, or with srun, torchrun, "
      "mpirun";
  return check;
}

Check compare_texts(const ClusterFindings& found, const char* name, Health worst,
                    std::map<std::string, std::string> RankReport::*texts, const char* fix) {
  std::vector<std::map<std::string, std::string>> by_rank;
  for (const RankReport& rank : found.ranks) by_rank.push_back(rank.*texts);
  const std::vector<std::string> odd = comm::differences(by_rank);
  std::vector<std::string> same;
  for (const auto& [key, value] : by_rank.at(0)) same.push_back(key + " " + value);
  if (odd.empty())
    return {Health::ok, name, fmt::format("{} on all ranks", fmt::join(same, ", ")), "", {}};
  return {worst, name, odd.front(), fix, {odd.begin() + 1, odd.end()}};
}

Check check_collective(const ClusterFindings& found, const std::string& name) {
  Check check{Health::ok, name, "", "", {}};
  std::vector<const CollectiveSpeed*> sizes;
  for (const CollectiveSpeed& one : found.collectives)
    if (one.collective == name) sizes.push_back(&one);
  for (const CollectiveSpeed* one : sizes)
    check.details.push_back(fmt::format("{:>8} {:>9.3f} ms {:>8.3f} GB/s", bytes_text(one->bytes),
                                        one->ms, one->gb_per_s()));
  const CollectiveSpeed &small = *sizes.front(), &large = *sizes.back();
  check.fact = fmt::format("{:.3f} ms for {}, {:.2f} GB/s with {}", small.ms,
                           bytes_text(small.bytes), large.gb_per_s(), bytes_text(large.bytes));
  if (small.ms <= kSlowLatency_ms && large.gb_per_s() >= kSlowLink_gb_s) return check;
  check.health = Health::warn;
  check.fix =
      "look at the interface it goes over (distributed.interface; NCCL_DEBUG=INFO: NET/Socket is "
      "plain TCP), and at what else runs on these cores";
  return check;
}

std::string pair_text(const PairSpeed& pair, const ClusterFindings& found) {
  const auto host = [&found](int rank) {
    return found.ranks.at(static_cast<std::size_t>(rank)).host;
  };
  return fmt::format("ranks {} ({}) and {} ({}): {:.2f} GB/s, {:.3f} ms", pair.first,
                     host(pair.first), pair.second, host(pair.second), pair.gb_per_s,
                     pair.latency_ms);
}

// Pairs within a host and across hosts are different things, and each is held to its own kind.
Check check_pairs(const ClusterFindings& found) {
  const auto by_speed = [](const PairSpeed& one, const PairSpeed& other) {
    return one.gb_per_s < other.gb_per_s;
  };
  const PairSpeed& slowest = *std::min_element(found.pairs.begin(), found.pairs.end(), by_speed);
  Check check{Health::ok, "slowest pair", pair_text(slowest, found), "", {}};
  for (const bool across : {false, true}) {
    std::vector<PairSpeed> kind;
    for (const PairSpeed& pair : found.pairs)
      if ((found.ranks.at(static_cast<std::size_t>(pair.first)).host !=
           found.ranks.at(static_cast<std::size_t>(pair.second)).host) == across)
        kind.push_back(pair);
    if (kind.empty()) continue;
    const double median =
        median_by<PairSpeed>(kind, [](const PairSpeed& pair) { return pair.gb_per_s; });
    const PairSpeed& worst = *std::min_element(kind.begin(), kind.end(), by_speed);
    check.details.push_back(fmt::format("{} pairs {}: median {:.2f} GB/s; {}", kind.size(),
                                        across ? "across hosts" : "within a host", median,
                                        pair_text(worst, found)));
    if (kind.size() < 3 || worst.gb_per_s >= median / 2) continue;
    check.health = Health::warn;
    check.fact =
        fmt::format("{}; half of its kind have {:.2f} GB/s", pair_text(worst, found), median);
    check.fix = "look at the cables, ports and cards between the two, or leave one of them out";
  }
  return check;
}

Check check_clocks(const ClusterFindings& found) {
  const ClockSkew& worst = *std::max_element(found.clocks.begin(), found.clocks.end(),
                                             [](const auto& one, const auto& other) {
                                               return std::abs(one.skew_s) < std::abs(other.skew_s);
                                             });
  Check check{Health::ok, "clocks", "", "", {}};
  for (const ClockSkew& one : found.clocks)
    check.details.push_back(fmt::format("rank {}: {:+.3f} ms, right to {:.3f} ms", one.rank,
                                        one.skew_s * 1e3, one.bound_s * 1e3));
  check.fact = fmt::format("rank {} is furthest from rank 0: {:+.3f} ms, right to {:.3f} ms",
                           worst.rank, worst.skew_s * 1e3, worst.bound_s * 1e3);
  if (std::abs(worst.skew_s) - worst.bound_s <= kFarSkew_s) return check;
  check.health = Health::warn;
  check.fix = fmt::format("start chrony or systemd-timesyncd on {}",
                          found.ranks.at(static_cast<std::size_t>(worst.rank)).host);
  return check;
}

Check check_disks(const ClusterFindings& found) {
  std::vector<RankReport> nodes;
  for (const RankReport& rank : found.ranks)
    if (rank.disk) nodes.push_back(rank);
  if (nodes.empty())
    return {Health::fail,
            "disks",
            "no node could measure its disk",
            "see the line about storage; name another folder with --storage",
            {}};
  const auto slowest = std::min_element(nodes.begin(), nodes.end(),
                                        [](const RankReport& one, const RankReport& other) {
                                          return one.disk->mb_per_s < other.disk->mb_per_s;
                                        });
  const double median =
      median_by<RankReport>(nodes, [](const RankReport& one) { return one.disk->mb_per_s; });
  Check check{Health::ok,
              "disks",
              fmt::format("slowest of {} nodes: {}, {:.0f} MB/s, fsync {:.1f} ms", nodes.size(),
                          slowest->host, slowest->disk->mb_per_s, slowest->disk->fsync_ms),
              "",
              {}};
  for (const RankReport& node : nodes)
    check.details.push_back(fmt::format("{}: {:.0f} MB/s, fsync {:.1f} ms", node.host,
                                        node.disk->mb_per_s, node.disk->fsync_ms));
  if (slowest->disk->mb_per_s >= median / 4) return check;
  check.health = Health::warn;
  check.fix = "every save waits for the slowest node: look at its disk or mount";
  return check;
}

Check check_gpu_health(const ClusterFindings& found) {
  Check check{Health::ok, "GPU health", "no GPU is in use", "", {}};
  int num_gpus = 0;
  unsigned hottest = 0;
  std::vector<std::string> broken, slow;
  for (const RankReport& rank : found.ranks) {
    if (!rank.gpu) continue;
    ++num_gpus;
    const tracking::GpuHealth& gpu = *rank.gpu;
    const std::string name = fmt::format("rank {} ({})", rank.rank, rank.host);
    hottest = std::max(hottest, gpu.temperature_c.value_or(0));
    if (gpu.needs_reset) broken.push_back(name + ": the GPU is lost or asks for a reset");
    if (gpu.uncorrected_ecc.value_or(0) > 0)
      broken.push_back(fmt::format("{}: {} uncorrected memory errors", name, *gpu.uncorrected_ecc));
    for (const std::string& reason : gpu.slowdowns)
      if (reason != "power cap") slow.push_back(fmt::format("{}: throttled, {}", name, reason));
    if (gpu.temperature_c.value_or(0) > kHot_c)
      slow.push_back(fmt::format("{}: {} degrees Celsius", name, *gpu.temperature_c));
    if (!gpu.problem.empty()) slow.push_back(fmt::format("{}: {}", name, gpu.problem));
  }
  if (num_gpus == 0) return check;
  check.fact = fmt::format("{} GPUs, no memory errors, none throttled, up to {} degrees Celsius",
                           num_gpus, hottest);
  if (broken.empty() && slow.empty()) return check;
  check.health = broken.empty() ? Health::warn : Health::fail;
  check.fix = broken.empty() ? "look at the cooling and power of those nodes (nvidia-smi -q)"
                             : "take those nodes out, reset the GPU (nvidia-smi -r) or replace it";
  broken.insert(broken.end(), slow.begin(), slow.end());
  check.fact = broken.front();
  check.details.assign(broken.begin() + 1, broken.end());
  return check;
}

}  // namespace

std::vector<Check> check_cluster(const ClusterFindings& found) {
  std::vector<Check> checks{check_ranks(found)};
  if (found.ranks.size() > 1) {
    checks.push_back(compare_texts(found, "versions", Health::fail, &RankReport::versions,
                                   "start the same program with the same libraries on all ranks"));
    checks.push_back(compare_texts(found, "machines", Health::warn, &RankReport::machine,
                                   "use the same driver and kernel on all nodes"));
    checks.push_back(check_collective(found, "all_reduce"));
    checks.push_back(check_collective(found, "all_gather"));
    checks.push_back(check_pairs(found));
    checks.push_back(check_clocks(found));
  }
  checks.push_back(check_disks(found));
  checks.push_back(check_gpu_health(found));
  return checks;
}

OrderedJson to_json(const ClusterFindings& found) {
  OrderedJson json{{"backend", found.backend},
                   {"ranks", OrderedJson::array()},
                   {"collectives", OrderedJson::array()},
                   {"pairs", OrderedJson::array()},
                   {"clocks", OrderedJson::array()}};
  for (const RankReport& rank : found.ranks) json["ranks"].push_back(to_json(rank));
  for (const CollectiveSpeed& one : found.collectives)
    json["collectives"].push_back({{"collective", one.collective},
                                   {"bytes", one.bytes},
                                   {"ms", one.ms},
                                   {"gb_per_s", one.gb_per_s()}});
  for (const PairSpeed& pair : found.pairs)
    json["pairs"].push_back({{"ranks", {pair.first, pair.second}},
                             {"latency_ms", pair.latency_ms},
                             {"gb_per_s", pair.gb_per_s}});
  for (const ClockSkew& one : found.clocks)
    json["clocks"].push_back(
        {{"rank", one.rank}, {"skew_ms", one.skew_s * 1e3}, {"bound_ms", one.bound_s * 1e3}});
  return json;
}

}  // namespace wmtp::cli
