#include "wmtp/checkpoint/save/shared_probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/checkpoint/reply.h"

namespace wmtp::checkpoint {
namespace {

std::string key(const SaveContext& context, std::string_view what) {
  return fmt::format("probe/{}/{}", context.attempt, what);
}

std::string take(const SaveContext& context, std::string_view what) {
  const auto vote = context.vote.wait(key(context, what), context.timeout);
  if (!vote) throw Error(ErrorKind::comm, "checkpoint", "probing save_dir: a rank is gone");
  Reply reply = parse_reply(*vote);
  if (reply.yes) return std::move(reply.text);
  throw Error(reply.kind, "checkpoint", reply.text);
}

void look(const SaveContext& context) {
  const std::string name = take(context, "file");
  bool seen = false;
  try {
    seen = storage::read_text(context.files, context.save_dir, name, "rank 0", 4096) == name;
  } catch (const Error&) {  // not here: that is the answer
  }
  context.vote.post(key(context, fmt::format("seen/{}", context.rank)), ok(seen ? "here" : ""));
  take(context, "end");
}

std::vector<int> blind_ranks(const SaveContext& context) {
  std::vector<int> blind;
  for (int rank = 1; rank < context.world_size; ++rank)
    if (take(context, fmt::format("seen/{}", rank)).empty()) blind.push_back(rank);
  return blind;
}

void show(const SaveContext& context, bool& posted) {
  const std::string name =
      hidden_name(checkpoint_name(context.model, 0), "tmp", context.run_id + ".probe");
  storage::remove_tree(context.files, context.save_dir / name);  // of a start that was killed
  const auto file = context.files.create_file(context.save_dir / name);
  file->write(std::as_bytes(std::span(name.data(), name.size())));
  file->sync();
  file->close();
  posted = true;
  context.vote.post(key(context, "file"), ok(name));
  const std::vector<int> blind = blind_ranks(context);
  context.files.remove_file(context.save_dir / name);
  if (!blind.empty())
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("rank {} does not see what rank 0 writes to {}", fmt::join(blind, ", "),
                            context.save_dir.string()),
                "checkpoint.save_dir must lie on storage that all ranks share");
}

}  // namespace

void probe_shared_folder(const SaveContext& context) {
  if (context.world_size == 1) return;
  if (context.rank != 0) return look(context);
  bool posted = false;
  try {
    show(context, posted);
  } catch (const Error& error) {
    context.vote.post(key(context, posted ? "end" : "file"), failed(error));
    throw;
  }
  context.vote.post(key(context, "end"), ok("done"));
}

}  // namespace wmtp::checkpoint
