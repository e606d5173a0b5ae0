// Loops over ATen's own threads, so that one setting (at::set_num_threads) rules all CPU work.
#pragma once
#include <cstdint>
#include <functional>

namespace wmtp::kernels::cpu {

// body(begin, end) over disjoint parts of [0, count); a part has at least `grain` items where there
// are that many. BLOCKS until all are done. What a part computes must not depend on where parts
// begin.
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

// Items per part so that a part is worth a thread: about 32 Ki elements.
inline std::int64_t grain_of(std::int64_t elements_per_item) {
  return elements_per_item >= 32768 ? 1 : 32768 / (elements_per_item > 0 ? elements_per_item : 1);
}

}  // namespace wmtp::kernels::cpu
