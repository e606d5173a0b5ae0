// What a rank of `wmtp launch` finds in its environment, and how many ranks `--nproc auto` means.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::cli {

// `all` where every rank has the console, whatever logging.console_ranks says.
inline constexpr const char* kConsoleRanksVariable = "WMTP_CONSOLE_RANKS";

struct RankEnv {
  int local_rank = 0, local_world = 1;
  int node = 0, num_nodes = 1;
  int restart_count = 0;
  int threads = 1;
  double grace_s = 120;
  bool on_terminal = false;  // this rank's output reaches a terminal
  bool tee_all = false;      // every rank has the console
  std::string run_token;     // empty: none
  std::string rendezvous;    // file://DIR, or tcp://HOST:PORT of several nodes
};

// The launcher's environment `base` ("K=V") without what another launcher left there, with this
// rank's variables and then `extra`. A thread count the user exported stays.
std::vector<std::string> rank_environment(std::span<const std::string> base, const RankEnv& env,
                                          std::span<const std::string> extra);

// Error config unless `text` is NAME=VALUE with a name the launcher does not set itself.
void check_extra_variable(std::string_view text);

std::vector<std::string> own_environment();
std::string make_run_token();  // 128 random bits, hexadecimal

// GPUs a process would see: those the driver shows, cut down by CUDA_VISIBLE_DEVICES (null =
// unset).
int num_visible_gpus(int num_installed, const char* visible_devices);
int num_installed_gpus();

}  // namespace wmtp::cli
