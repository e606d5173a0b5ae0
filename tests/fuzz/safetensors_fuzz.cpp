#include "fuzz/fuzz.h"
#include "wmtp/storage/safetensors_header.h"

WMTP_FUZZ_TARGET(safetensors) {
  using namespace wmtp;
  const auto header = storage::parse_safetensors_header(bytes, bytes.size(), "file");
  for (const storage::StoredTensor& tensor : header.tensors)
    fuzz::require(tensor.begin <= tensor.end && tensor.end <= bytes.size() - header.data_begin,
                  "a tensor outside the file");
  // What is believed means one thing: written again it reads the same.
  const auto plan = storage::plan_safetensors(header.tensors, header.metadata);
  const auto again = storage::parse_safetensors_header(
      fuzz::bytes_of(plan.header), plan.header.size() + plan.data_bytes, "again");
  fuzz::require(again.tensors.size() == header.tensors.size() && again.metadata == header.metadata,
                "a header that does not come back");
}
