// Law runs (support/runs/law_run.h) that are saved and found again.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "support/runs/law_run.h"
#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/checkpoints/resume.h"

namespace wmtp::test {

namespace fs = std::filesystem;

inline constexpr const char* kModel = "law";

// Odd extents: shards end within rows, and padding is everywhere.
inline model::ModelConfig odd_config(bool tied = false) {
  model::ModelConfig config = model::preset("micro");
  config.dim = 36;
  config.num_heads = 3, config.num_kv_heads = 1, config.head_dim = 12;
  config.ffn_dim = 44;
  config.vocab_size = 101;
  config.tied = tied;
  return config;
}

inline void save(training::TrainableModel& model, comm::ProcessGroupSession& session,
                 const fs::path& folder, const run::SavedState& state) {
  run::CheckpointOptions context;
  context.save_dir = folder;
  context.model = kModel;
  context.run_id = context.start_id = "writer-" + folder.filename().string();
  context.strategy = "any";
  context.config_yaml = context.model_config = "{}";
  std::optional<checkpoint::RunLock> lock;
  if (session.rank() == 0) lock.emplace(folder, kModel, checkpoint::this_process(context.run_id));
  run::Checkpointer checkpointer(context, session);
  checkpointer.save(model, state, {}, /*wait=*/true);
  for (const run::SaveOutcome& outcome : checkpointer.outcomes())
    EXPECT_TRUE(outcome.saved) << outcome.error;
}

inline run::FoundState find(const fs::path& folder, comm::ProcessGroupSession& session) {
  config::Config config;
  config.checkpoint.save_dir = folder;
  static int attempt = 0;
  auto found = run::find_state(
      {.config = config, .model = kModel, .run_id = "run", .start_id = std::to_string(++attempt)},
      session);
  EXPECT_TRUE(found);
  return std::move(*found);
}

inline run::SavedState state_at(std::int64_t step) {
  run::SavedState state;
  state.train.step = state.applied_updates = step;
  return state;
}

// Names and bytes of all tensors of a checkpoint.
inline std::map<std::string, std::string> tensors_of(const fs::path& folder,
                                                     comm::ProcessGroupSession& session) {
  const run::FoundState found = find(folder, session);
  std::map<std::string, std::string> tensors;
  for (const auto part : {checkpoint::Part::model, checkpoint::Part::optim})
    for (const auto& [name, record] : found.reader->manifest().tensors(part)) {
      std::string bytes(*storage::tensor_bytes(record.dtype, record.shape), '\0');
      found.reader->read(name, 0, storage::numel(record.shape),
                         std::as_writable_bytes(std::span(bytes)));
      tensors[name] = std::move(bytes);
    }
  return tensors;
}

}  // namespace wmtp::test
