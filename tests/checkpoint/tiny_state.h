// A tiny training state whose every byte follows from the step: what any checkpoint of step N must
// hold is known without having seen it written.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/rng.h"

namespace wmtp::checkpoint::tiny {

inline const std::string kModel = "tiny";

struct TinyTensor {
  Part part;
  std::string name;
  storage::StoredDtype dtype;
  std::vector<std::int64_t> shape;

  std::int64_t numel() const { return storage::numel(shape); }
  std::size_t item() const { return storage::bits_of(dtype) / 8; }
};

// The matrix and the vector of the format's example, and a bf16 one.
inline const std::vector<TinyTensor>& tensors() {
  using enum storage::StoredDtype;
  static const std::vector<TinyTensor> list{
      {Part::model, "a.weight", F32, {10, 6}},
      {Part::model, "b.bias", F32, {7}},
      {Part::model, "c.weight", BF16, {3, 5}},
      {Part::optim, "optim.state.a.weight.exp_avg", F32, {10, 6}},
      {Part::optim, "optim.state.b.bias.exp_avg", F32, {7}},
  };
  return list;
}

inline std::vector<std::byte> content(const TinyTensor& tensor, std::int64_t step) {
  RngStream rng(static_cast<std::uint64_t>(step), tensor.name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.numel()) * tensor.item());
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const PhiloxWords words = rng.next();
    std::memcpy(bytes.data() + at, words.data(), std::min<std::size_t>(16, bytes.size() - at));
  }
  return bytes;
}

inline std::string trainer_state(std::int64_t step) {
  OrderedJson state;
  state["version"] = 1;
  state["step"] = step;
  for (const char* key :
       {"epoch", "samples_seen", "tokens_seen", "cursor", "rng", "optimizer", "schedule",
        "loss_scale", "ema", "best", "early_stop", "layout", "mlflow"})
    state[key] = nullptr;
  return trainer_state_text(state);
}

// One rank's part of the state at `step`: an equal share of all elements of a part laid end to end.
class RankState {
 public:
  RankState(std::int64_t step, int rank, int world_size) {
    request_.step = step;
    request_.strategy = "FULL_SHARD";
    request_.wmtp = "0.0.0";
    request_.fingerprints = {"c", "d", "t", ""};
    request_.state_hash = std::to_string(step);
    if (rank == 0) {
      request_.trainer_state = trainer_state(step);
      request_.texts = {{"config.yaml", "model: tiny\n"}, {"config.json", "{}\n"}};
    }
    for (const TinyTensor& tensor : tensors()) contents_.push_back(content(tensor, step));
    for (const Part part : {Part::model, Part::optim}) add_pieces(part, rank, world_size);
  }
  RankState(const RankState&) = delete;
  SaveRequest& request() { return request_; }

 private:
  void add_pieces(Part part, int rank, int world_size) {
    std::int64_t total = 0, at = 0;
    for (const TinyTensor& tensor : tensors())
      if (tensor.part == part) total += tensor.numel();
    const std::int64_t share = (total + world_size - 1) / world_size;
    const layout::Range mine{std::min(total, rank * share), std::min(total, (rank + 1) * share)};
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      const TinyTensor& tensor = tensors()[i];
      if (tensor.part != part) continue;
      const layout::Range range =
          layout::intersect({0, tensor.numel()}, {mine.begin - at, mine.end - at});
      at += tensor.numel();
      if (range.empty()) continue;
      const auto bytes = std::span<const std::byte>(contents_[i])
                             .subspan(static_cast<std::size_t>(range.begin) * tensor.item(),
                                      static_cast<std::size_t>(range.size()) * tensor.item());
      (part == Part::model ? request_.model : request_.optim)
          .push_back({tensor.name, tensor.dtype, tensor.shape, range, bytes});
    }
  }

  std::vector<std::vector<std::byte>> contents_;
  SaveRequest request_;
};

inline std::vector<std::byte> read_range(CheckpointReader& reader, const TinyTensor& tensor,
                                         std::int64_t begin, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * tensor.item());
  reader.read(tensor.name, begin, count, bytes);
  return bytes;
}

// "" when the folder holds exactly the state of `step`, checked in full; otherwise what is wrong.
inline std::string fault_of(const storage::FileSystem& files, const std::filesystem::path& folder,
                            std::int64_t step) {
  try {
    CheckpointReader reader(files, folder);
    if (reader.manifest().step != step) return "another step";
    reader.check_presence();
    for (const FileRecord& file : reader.manifest().files) reader.check_file(file, Verify::full);
    for (const TinyTensor& tensor : tensors())
      if (read_range(reader, tensor, 0, tensor.numel()) != content(tensor, step))
        return tensor.name + " differs";
    if (reader.text(kTrainerStateFile) != trainer_state(step)) return "trainer_state.json differs";
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

struct SaveOutcome {
  std::vector<std::string> errors;  // per rank; "" = saved
  bool all_saved() const {
    return std::all_of(errors.begin(), errors.end(), [](const auto& e) { return e.empty(); });
  }
};

// Ranks as threads over one LocalExchange.
inline SaveOutcome save_with(storage::FileSystem& files, const std::filesystem::path& save_dir,
                             std::int64_t step, int world_size, const std::string& run_id = "run",
                             const std::function<void(int, SaveRequest&)>& change = {}) {
  LocalExchange vote;
  SaveOutcome outcome;
  outcome.errors.resize(static_cast<std::size_t>(world_size));
  auto rank_body = [&](int rank) {
    try {
      RankState state(step, rank, world_size);
      if (change) change(rank, state.request());
      Saver saver({.files = files,
                   .vote = vote,
                   .save_dir = save_dir,
                   .model = kModel,
                   .run_id = run_id,
                   .rank = rank,
                   .world_size = world_size,
                   .timeout = std::chrono::milliseconds(20'000)});
      saver.save(state.request());
    } catch (const Error& error) {
      outcome.errors[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < world_size; ++rank) others.emplace_back(rank_body, rank);
  rank_body(0);
  for (std::thread& other : others) other.join();
  return outcome;
}

inline void expect_saved(storage::FileSystem& files, const std::filesystem::path& save_dir,
                         std::int64_t step, int world_size = 1) {
  for (const std::string& error : save_with(files, save_dir, step, world_size).errors)
    EXPECT_EQ(error, "");
}

}  // namespace wmtp::checkpoint::tiny
