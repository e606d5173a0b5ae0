#include "wmtp/s3/etag_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "wmtp/s3/file_part.h"
#include "wmtp/s3/part_plan.h"

namespace wmtp::s3 {
namespace {

// The part sizes of this program, of AWS's tools and of other clients, in MiB.
constexpr std::array<std::uint64_t, 10> kUsualPartSizes = {16, 8, 5, 10, 15, 32, 64, 100, 128, 256};

std::string etag_of_file(int file, const PartPlan& plan, bool is_composite) {
  std::vector<Md5Digest> parts;
  for (int number = 1; number <= plan.num_parts(); ++number)
    parts.push_back(digest_part(file, plan.range_of(number)).md5);
  return is_composite ? composite_etag(parts) : to_hex(parts.front());
}

}  // namespace

// By parts of the sizes that are usual and give the number of them that the ETag says. Sizes that
// nobody uses cannot be told from damage, so they are no proof against the file.
EtagVerdict compare_with_etag(int file, const ObjectFacts& facts, const Session& session) {
  if (facts.has_opaque_etag) return EtagVerdict::unknown;
  const auto lower = [](std::string text) {
    for (char& c : text)
      if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    return text;
  };
  const std::string etag = lower(facts.etag);
  if (is_md5_etag(etag)) {
    const PartPlan whole{facts.bytes, std::max<std::uint64_t>(1, facts.bytes)};
    const bool is_same = etag_of_file(file, whole, false) == etag;
    return is_same ? EtagVerdict::same : EtagVerdict::different;
  }
  const auto num_parts = num_parts_of_etag(etag);
  if (!num_parts) return EtagVerdict::unknown;
  std::vector<std::uint64_t> sizes = {
      plan_parts(facts.bytes, session.options().part_bytes).part_bytes};
  for (const std::uint64_t mebibytes : kUsualPartSizes)
    sizes.push_back(plan_parts(facts.bytes, mebibytes * kMebibyte).part_bytes);
  for (const std::uint64_t size : sizes) {
    const PartPlan plan{facts.bytes, size};
    if (plan.num_parts() == *num_parts && etag_of_file(file, plan, true) == etag)
      return EtagVerdict::same;
  }
  return EtagVerdict::unknown;
}

}  // namespace wmtp::s3
