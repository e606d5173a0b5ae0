// All ranks must be the same program with the same settings before the first collective.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/comm/store.h"

namespace wmtp::comm {

// What one rank says of itself. Keys are free; a key missing on some rank differs from any value.
struct Facts {
  std::map<std::string, std::string> must_agree =
      {};                                          // build id, versions, world, fingerprints, ...
  std::map<std::string, std::string> config = {};  // flat: training.learning_rate -> 1e-5
  std::map<std::string, std::string> should_agree =
      {};  // GPU model, driver: differences are warnings
  // Seconds since 1970 by this rank's clock, read when all ranks had just met (a barrier): one that
  // differs by more than kClockSkew_s from rank 0's is a warning.
  std::optional<double> clock_s = std::nullopt;
};
inline constexpr double kClockSkew_s = 5;

struct AgreementOptions {
  int rank = 0, world = 1;
  std::chrono::milliseconds timeout = std::chrono::seconds(120);  // distributed.agreement_timeout_s
  std::size_t max_lines = 20;                                     // of differences shown
  std::string scope = "start";  // agreements of one run have different scopes
};

// COLLECTIVE over the store, BLOCKS. Rank 0 compares with the majority (ties: the value of the
// lowest rank) and publishes. A difference: every rank throws the same Error config, e.g. "rank 3:
// training.learning_rate 1e-4, others 1e-5". A rank that posts nothing in time: Error comm naming
// it. Returns the warnings (rank 0 logs them).
std::vector<std::string> agree(const Store& store, const Facts& mine,
                               const AgreementOptions& options);

// The comparison alone: one line per odd value, at most `max_lines`.
std::vector<std::string> differences(const std::vector<std::map<std::string, std::string>>& by_rank,
                                     std::size_t max_lines = 20);
// The same for clocks; a rank without one is left out.
std::vector<std::string> clock_differences(const std::vector<std::optional<double>>& by_rank);

}  // namespace wmtp::comm
