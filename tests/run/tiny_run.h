// Whole runs of a tiny model, for tests of checkpoints: the real trainer over the demo corpus, some
// milliseconds a step.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/trainer.h"

namespace wmtp::test {

inline constexpr std::int64_t kTinySteps = 40;
inline constexpr const char* kTinyName = "tiny";  // models.policy.name

struct TinyStage {
  std::string stage;  // baseline, critic, verifiable, rho1
  bool lora = false;
  std::string reference = {};  // rho1: a model
};

// The corpus and its tokenizer; once per folder.
void make_tiny_data(const std::filesystem::path& folder);

class TinyRun {
 public:
  // BORROWS session, which is connected. `folder` holds the data; overrides follow the stage's own.
  TinyRun(comm::ProcessGroupSession& session, const std::filesystem::path& folder,
          const TinyStage& stage, std::vector<std::string> overrides,
          std::chrono::milliseconds save_limit = run::TrainerOptions{}.save_limit);

  run::Trainer& trainer() { return *trainer_; }
  // To the end, or until two steps after `stop_at`.
  run::RunEnd run(std::optional<std::int64_t> stop_at = std::nullopt);

 private:
  config::ResolvedConfig config_;
  std::optional<checkpoint::RunLock> lock_;  // rank 0
  std::unique_ptr<run::Trainer> trainer_;
};

// A group of one process, connected.
std::unique_ptr<comm::ProcessGroupSession> single_session();

std::string checkpoint_at(std::int64_t step);  // its folder's name
// One hash of all state in a checkpoint: tensors, counters, the model's configuration.
std::string state_hash(const std::filesystem::path& checkpoint);

}  // namespace wmtp::test
