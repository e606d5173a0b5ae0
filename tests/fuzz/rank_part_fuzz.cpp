#include "fuzz/whole_manifest.h"
#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/checkpoint/save/part_merger.h"

WMTP_FUZZ_TARGET(rank_part) {
  using namespace wmtp;
  checkpoint::RankPart part = checkpoint::parse_part(fuzz::text_of(bytes), "rank 1");
  fuzz::require_digests(part.files);
  const std::string again = checkpoint::to_text(part);
  fuzz::require(checkpoint::to_text(checkpoint::parse_part(again, "rank 1")) == again,
                "a part that does not come back");
  checkpoint::Manifest manifest;
  checkpoint::PartMerger merger(manifest);
  merger.add(0, std::move(part));
  merger.finish();
  fuzz::require_whole(manifest);
}
