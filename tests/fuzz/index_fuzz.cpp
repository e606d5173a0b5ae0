#include "fuzz/fuzz.h"
#include "wmtp/weights/weight_index.h"

WMTP_FUZZ_TARGET(index) {
  using namespace wmtp;
  for (const auto& [file, tensors] : weights::parse_weight_index(fuzz::text_of(bytes), "index"))
    fuzz::require(!tensors.empty() && file.size() <= weights::kMaxIndexFileName &&
                      file.find_first_of(std::string_view("/\0", 2)) == file.npos && file != "..",
                  "a name that leads elsewhere");
}
