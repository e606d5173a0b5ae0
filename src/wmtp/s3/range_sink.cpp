#include "wmtp/s3/range_sink.h"

#include <fmt/format.h>

#include "wmtp/core/printable.h"
#include "wmtp/s3/answers.h"
#include "wmtp/s3/problem.h"

namespace wmtp::s3 {

void RangeSink::begin(int status, const http::Headers& headers) {
  done_ = 0;
  const std::string etag = without_quotes(headers.find("ETag").value_or(""));
  if (etag != etag_)
    throw S3Error(Problem::bad_digest, status, "",
                  fmt::format("{} was replaced while it was being read (ETag \"{}\", then \"{}\")",
                              shown_, printable(etag_), printable(etag)),
                  "try again when nobody writes to it");
}

void RangeSink::write(std::span<const std::byte> bytes) {
  write_(done_, bytes);
  done_ += bytes.size();
}

}  // namespace wmtp::s3
