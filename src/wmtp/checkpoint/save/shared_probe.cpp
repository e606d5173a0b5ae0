#include "wmtp/checkpoint/save/shared_probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/checkpoint/ballot.h"

namespace wmtp::checkpoint {
namespace {

std::string key(const SaveSite& site, std::string_view what) {
  return fmt::format("probe/{}/{}", site.attempt, what);
}

std::string take(const SaveSite& site, std::string_view what) {
  const auto vote = site.vote.wait(key(site, what), site.timeout);
  if (!vote) throw Error(ErrorKind::comm, "checkpoint", "probing save_dir: a rank is gone");
  Ballot ballot = parse_ballot(*vote);
  if (ballot.yes) return std::move(ballot.text);
  throw Error(ballot.kind, "checkpoint", ballot.text);
}

void look(const SaveSite& site) {
  const std::string name = take(site, "file");
  bool seen = false;
  try {
    seen = storage::read_text(site.files, site.save_dir, name, "rank 0", 4096) == name;
  } catch (const Error&) {  // not here: that is the answer
  }
  site.vote.post(key(site, fmt::format("seen/{}", site.rank)), yes(seen ? "here" : ""));
  take(site, "end");
}

std::vector<int> blind_ranks(const SaveSite& site) {
  std::vector<int> blind;
  for (int rank = 1; rank < site.world_size; ++rank)
    if (take(site, fmt::format("seen/{}", rank)).empty()) blind.push_back(rank);
  return blind;
}

void show(const SaveSite& site, bool& posted) {
  const std::string name =
      hidden_name(checkpoint_name(site.model, 0), "tmp", site.run_id + ".probe");
  storage::remove_tree(site.files, site.save_dir / name);  // of a start that was killed
  const auto file = site.files.create_file(site.save_dir / name);
  file->write(std::as_bytes(std::span(name.data(), name.size())));
  file->sync();
  file->close();
  posted = true;
  site.vote.post(key(site, "file"), yes(name));
  const std::vector<int> blind = blind_ranks(site);
  site.files.remove_file(site.save_dir / name);
  if (!blind.empty())
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("rank {} does not see what rank 0 writes to {}", fmt::join(blind, ", "),
                            site.save_dir.string()),
                "checkpoint.save_dir must lie on storage that all ranks share");
}

}  // namespace

void probe_shared_folder(const SaveSite& site) {
  if (site.world_size == 1) return;
  if (site.rank != 0) return look(site);
  bool posted = false;
  try {
    show(site, posted);
  } catch (const Error& error) {
    site.vote.post(key(site, posted ? "end" : "file"), no(error));
    throw;
  }
  site.vote.post(key(site, "end"), yes("done"));
}

}  // namespace wmtp::checkpoint
