// The input is a manifest without its last key; the self hash is made right here, so that what lies
// behind it is reached.
#include "fuzz/whole_manifest.h"
#include "wmtp/core/checksum.h"

WMTP_FUZZ_TARGET(manifest) {
  using namespace wmtp;
  std::string text(fuzz::text_of(bytes));
  text += "\"self_sha256\":\"";
  const std::size_t digits = text.size();
  text.append(64, '0').append("\"}\n");
  text.replace(digits, 64, sha256_hex(text));
  checkpoint::Manifest read = checkpoint::parse_manifest(text, "folder");
  fuzz::require_whole(read);
  const std::string again = checkpoint::to_text(read);
  checkpoint::Manifest twice = checkpoint::parse_manifest(again, "folder");
  fuzz::require(checkpoint::to_text(twice) == again, "a manifest that does not come back");
}
