// Writes and reads checkpoints through the commit engine for the Python tests. No LibTorch.
//   wmtp_checkpoint_probe write IN DIR MODEL STEP WORLD   tensors of IN.safetensors, saved by WORLD
//   ranks wmtp_checkpoint_probe read DIR OUT WORLD              read back in WORLD shares,
//   OUT.safetensors
// Names that begin with "optim." are optimizer state.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/core/file.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::checkpoint {
namespace {

using storage::StoredTensor;

std::string empty_state(std::int64_t step) {
  OrderedJson state;
  for (const char* key :
       {"version", "step", "epoch", "samples_seen", "tokens_seen", "cursor", "rng", "optimizer",
        "schedule", "loss_scale", "ema", "best", "early_stop", "layout", "mlflow"})
    state[key] = nullptr;
  state["version"] = 1;
  state["step"] = step;
  state["epoch"] = 0.25;
  state["samples_seen"] = 8 * step;
  state["tokens_seen"] = 1024 * step;
  return trainer_state_text(state);
}

struct Source {
  std::string bytes;
  storage::SafetensorsHeader header;

  explicit Source(const std::string& path) : bytes(read_file(path, std::size_t{1} << 30)) {
    header = storage::parse_safetensors_header(std::as_bytes(std::span(bytes.data(), bytes.size())),
                                               bytes.size(), path);
  }
  std::span<const std::byte> of(const StoredTensor& tensor, layout::Range range) const {
    const std::size_t item = storage::bits_of(tensor.dtype) / 8;
    return std::as_bytes(std::span(bytes.data(), bytes.size()))
        .subspan(header.data_begin + tensor.begin + static_cast<std::size_t>(range.begin) * item,
                 static_cast<std::size_t>(range.size()) * item);
  }
};

// An equal share of all elements of a part, laid end to end in the order of the names.
std::vector<TensorPiece> pieces_of(const Source& source, bool optim, int rank, int world) {
  std::int64_t total = 0, at = 0;
  std::vector<const StoredTensor*> mine;
  for (const StoredTensor& tensor : source.header.tensors)
    if (tensor.name.starts_with("optim.") == optim) {
      mine.push_back(&tensor);
      total += storage::numel(tensor.shape);
    }
  const std::int64_t share = (total + world - 1) / world;
  std::vector<TensorPiece> pieces;
  for (const StoredTensor* tensor : mine) {
    const std::int64_t numel = storage::numel(tensor->shape);
    const layout::Range range =
        layout::intersect({0, numel}, {rank * share - at, (rank + 1) * share - at});
    at += numel;
    if (!range.empty())
      pieces.push_back(
          {tensor->name, tensor->dtype, tensor->shape, range, source.of(*tensor, range)});
  }
  return pieces;
}

void write(const Source& source, const SaveContext& context, std::int64_t step, int rank) {
  SaveContext mine = context;
  mine.rank = rank;
  SaveRequest request;
  request.step = step;
  request.strategy = "FULL_SHARD";
  request.wmtp = "probe";
  request.model = pieces_of(source, false, rank, context.world_size);
  request.optim = pieces_of(source, true, rank, context.world_size);
  request.trainer_state = empty_state(step);
  request.texts = {{"config.yaml", "{}\n"}};
  Saver(mine).save(request);
}

int write_all(char** args) {
  const Source source(args[0]);
  storage::LocalFileSystem files;
  LocalExchange vote;
  const SaveContext context{.files = files,
                            .vote = vote,
                            .save_dir = args[1],
                            .model = args[2],
                            .run_id = "probe",
                            .world_size = std::stoi(args[4])};
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < context.world_size; ++rank)
    ranks.emplace_back([&, rank] { write(source, context, std::stoll(args[3]), rank); });
  write(source, context, std::stoll(args[3]), 0);
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

int read_all(char** args) {
  const storage::LocalFileSystem files;
  std::vector<StoredTensor> tensors;
  CheckpointReader first(files, args[0]);
  for (const Part part : {Part::model, Part::optim})
    for (const auto& [name, tensor] : first.manifest().tensors(part))
      tensors.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  const auto plan = storage::plan_safetensors(tensors, {{"format", "pt"}});
  storage::AtomicFile out(args[1]);
  out.write(plan.header);
  const int world = std::stoi(args[2]);
  for (const StoredTensor& tensor : plan.tensors) {
    const std::int64_t numel = storage::numel(tensor.shape), share = (numel + world - 1) / world;
    for (int rank = 0; rank < world; ++rank) {  // each share by a reader of its own
      const std::int64_t begin = std::min(numel, rank * share);
      const std::int64_t end = std::min(numel, begin + share);
      std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin) *
                                   storage::bits_of(tensor.dtype) / 8);
      CheckpointReader(files, args[0]).read(tensor.name, begin, end - begin, bytes);
      out.write(bytes);
    }
  }
  out.commit();
  return 0;
}

}  // namespace
}  // namespace wmtp::checkpoint

int main(int argc, char** argv) {
  try {
    if (argc == 7 && std::strcmp(argv[1], "write") == 0)
      return wmtp::checkpoint::write_all(argv + 2);
    if (argc == 5 && std::strcmp(argv[1], "read") == 0) return wmtp::checkpoint::read_all(argv + 2);
    std::fprintf(stderr, "write IN DIR MODEL STEP WORLD | read DIR OUT WORLD\n");
    return 78;
  } catch (const wmtp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(wmtp::exit_code(error.kind()));
  }
}
