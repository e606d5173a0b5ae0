#include "fuzz/section_input.h"
#include "wmtp/data/tokens/token_cache.h"

WMTP_FUZZ_TARGET(token_cache) {
  using namespace wmtp;
  const std::string content = fuzz::section_file(bytes, sizeof(data::CacheFacts));
  const fuzz::MemoryFile file(fuzz::bytes_of(content));
  const data::TokenCache cache = data::TokenCache::open(file.path());
  std::vector<std::int32_t> ids;
  for (std::uint32_t row = 0; row < cache.num_rows(); ++row) {
    fuzz::require(cache.prompt_len(row) <= cache.row_length(row), "a prompt longer than its row");
    ids.resize(cache.row_length(row));
    cache.copy(cache.row_begin(row), ids);
  }
}
