// Whether a file's bytes are those of an object, as far as its ETag tells.
#pragma once
#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {

enum class EtagVerdict {
  same,
  different,
  unknown,  // the ETag is no MD5, or one over parts of a size that cannot be told
};

// BLOCKS: reads the file, at worst once for each usual part size. REQUIRES a file of facts.bytes
// bytes.
EtagVerdict compare_with_etag(int file, const ObjectFacts& facts, const Session& session);

}  // namespace wmtp::s3
