// Numbered pieces of work over several connections at once.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {

// BLOCKS. Calls work(bucket, number) for 1 to `count`, each once, in as many threads as the options
// say, each with a Bucket of its own. The first error ends the others and is thrown; so does
// `cancelled`.
void for_each_number(const std::shared_ptr<Session>& session, int count,
                     const std::atomic<bool>* cancelled,
                     const std::function<void(Bucket&, int)>& work);

}  // namespace wmtp::s3
