#include "fuzz/whole_manifest.h"
#include "wmtp/commit/manifest_text.h"
#include "wmtp/commit/part_merger.h"

WMTP_FUZZ_TARGET(rank_part) {
  using namespace wmtp;
  commit::RankPart part = commit::parse_part(fuzz::text_of(bytes), "rank 1");
  fuzz::require_digests(part.files);
  const std::string again = commit::to_text(part);
  fuzz::require(commit::to_text(commit::parse_part(again, "rank 1")) == again,
                "a part that does not come back");
  commit::Manifest manifest;
  commit::PartMerger merger(manifest);
  merger.add(0, std::move(part));
  merger.finish();
  fuzz::require_whole(manifest);
}
