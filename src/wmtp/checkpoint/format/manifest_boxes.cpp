#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "wmtp/checkpoint/format/manifest.h"

namespace wmtp::checkpoint {
namespace {

using layout::Range;

struct Placed {
  std::string_view tensor;
  Range range;
  std::string_view file;
};

std::string fault_of(std::string_view tensor, std::string_view fact) {
  return fmt::format("tensor \"{:.80}\": {}", tensor, fact);
}

// The boxes of one part, in the order of tensor and place; a fault ends it.
std::string place_boxes(const Manifest& manifest, Part part, std::vector<Placed>& placed) {
  const std::string folder = std::string(name_of(part)) + "/";
  for (const FileRecord& file : manifest.files) {
    if (!file.is_shard() || !file.path.starts_with(folder)) continue;
    for (const BoxRecord& box : file.boxes) {
      const auto tensor = manifest.tensors(part).find(box.tensor);
      if (tensor == manifest.tensors(part).end())
        return fault_of(box.tensor, fmt::format("in {}, but not in the list", file.path));
      const auto range = flat_range(tensor->second, box);
      if (!range) return fault_of(box.tensor, fmt::format("a bad box in {}", file.path));
      placed.push_back({tensor->first, *range, file.path});
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.range.begin < b.range.begin;
  });
  return "";
}

std::string find_part_fault(const Manifest& manifest, Part part) {
  std::vector<Placed> placed;
  if (std::string fault = place_boxes(manifest, part, placed); !fault.empty()) return fault;
  auto next = placed.begin();
  for (const auto& [name, tensor] : manifest.tensors(part)) {
    std::int64_t covered = 0;
    for (; next != placed.end() && next->tensor == name; ++next) {
      if (next->range.begin != covered)
        return fault_of(name, fmt::format("{} at element {} in {}",
                                          next->range.begin > covered ? "a hole" : "an overlap",
                                          std::min(covered, next->range.begin), next->file));
      covered = next->range.end;
    }
    if (const std::int64_t total = storage::numel(tensor.shape); covered != total)
      return fault_of(name, fmt::format("the boxes cover {} of {} elements", covered, total));
  }
  return "";
}

}  // namespace

std::optional<Range> flat_range(const TensorRecord& tensor, const BoxRecord& box) {
  const std::size_t rank = tensor.shape.size();
  if (rank == 0 || rank > 2 || box.offsets.size() != rank || box.shape.size() != rank)
    return std::nullopt;
  for (std::size_t i = 0; i < rank; ++i)
    if (box.shape[i] < 1 || box.offsets[i] < 0 || box.offsets[i] > tensor.shape[i] - box.shape[i])
      return std::nullopt;
  if (rank == 1) return Range{box.offsets[0], box.offsets[0] + box.shape[0]};
  const std::int64_t columns = tensor.shape[1];
  if (box.shape[0] != 1 && box.shape[1] != columns) return std::nullopt;
  const std::int64_t begin = box.offsets[0] * columns + box.offsets[1];
  return Range{begin, begin + box.shape[0] * box.shape[1]};
}

std::string find_box_fault(const Manifest& manifest) {
  // Readers ask for tensors by name alone.
  for (const auto& [name, tensor] : manifest.model_tensors)
    if (manifest.optim_tensors.contains(name)) return fault_of(name, "in both parts");
  const std::string fault = find_part_fault(manifest, Part::model);
  return fault.empty() ? find_part_fault(manifest, Part::optim) : fault;
}

}  // namespace wmtp::checkpoint
