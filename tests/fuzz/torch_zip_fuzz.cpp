#include "fuzz/fuzz.h"
#include "wmtp/checkpoint/torch_pickle.h"
#include "wmtp/checkpoint/torch_zip.h"
#include "wmtp/core/error.h"

WMTP_FUZZ_TARGET(torch_zip) {
  using namespace wmtp;
  const fuzz::MemoryFile file(bytes);
  const checkpoint::TorchZip zip(storage::MappedFile::open(file.path()));
  const checkpoint::ZipEntry* const pickle = zip.find("data.pkl");
  if (!pickle) return;
  try {
    zip.check_crc(*pickle);
  } catch (const Error&) {  // the pickle behind a wrong sum is read all the same
  }
  const auto tree = checkpoint::parse_torch_pickle(zip.bytes(*pickle), zip.origin());
  for (const checkpoint::PickledTensor& tensor : tree.tensors)
    if (const auto* storage = zip.find("data/" + tensor.storage_key)) zip.check_crc(*storage);
}
