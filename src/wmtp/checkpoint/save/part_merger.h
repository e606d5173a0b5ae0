// How rank 0 makes one manifest of the parts of all ranks.
#pragma once
#include <string>
#include <vector>

#include "wmtp/checkpoint/format/manifest_text.h"

namespace wmtp::checkpoint {

class PartMerger {
 public:
  explicit PartMerger(Manifest& manifest) : manifest_(manifest) {}
  // ErrorKind::checkpoint when ranks describe a tensor differently.
  void add(int rank, RankPart part);
  // ErrorKind::numeric naming the ranks whose state differs from the others'; ErrorKind::checkpoint
  // when the boxes do not make up the tensors.
  void finish() const;

 private:
  void merge(int rank, TensorTable& whole, const TensorTable& table) const;

  Manifest& manifest_;
  std::vector<std::string> state_hashes_;
};

}  // namespace wmtp::checkpoint
