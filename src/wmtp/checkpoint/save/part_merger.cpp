#include "wmtp/checkpoint/save/part_merger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "wmtp/core/error.h"

namespace wmtp::checkpoint {

void PartMerger::merge(int rank, TensorTable& whole, const TensorTable& table) const {
  for (const auto& [name, tensor] : table) {
    const auto [at, inserted] = whole.emplace(name, tensor);
    if (!inserted && at->second != tensor)
      throw Error(ErrorKind::checkpoint, "checkpoint",
                  fmt::format("rank {} says that {} is {} {}, others say {} {}", rank, name,
                              name_of(tensor.dtype), storage::shape_text(tensor.shape),
                              name_of(at->second.dtype), storage::shape_text(at->second.shape)));
  }
}

void PartMerger::add(int rank, RankPart part) {
  merge(rank, manifest_.model_tensors, part.model_tensors);
  merge(rank, manifest_.optim_tensors, part.optim_tensors);
  std::move(part.files.begin(), part.files.end(), std::back_inserter(manifest_.files));
  state_hashes_.push_back(std::move(part.state_hash));
}

void PartMerger::finish() const {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t rank = 0; rank < state_hashes_.size(); ++rank)
    groups[state_hashes_[rank]].push_back(rank);
  if (groups.size() > 1) {
    std::vector<std::size_t> odd;  // all but the majority; all, where there is none
    for (const auto& [hash, ranks] : groups)
      if (2 * ranks.size() <= state_hashes_.size())
        odd.insert(odd.end(), ranks.begin(), ranks.end());
    std::sort(odd.begin(), odd.end());
    throw Error(ErrorKind::numeric, "checkpoint",
                fmt::format("state that all ranks hold alike differs on rank {} of {}",
                            fmt::join(odd, ", "), state_hashes_.size()),
                "nothing was saved");
  }
  if (const std::string fault = find_box_fault(manifest_); !fault.empty())
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("the ranks' parts do not make up the whole: {}", fault));
}

}  // namespace wmtp::checkpoint
