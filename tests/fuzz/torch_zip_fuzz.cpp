#include "fuzz/fuzz.h"
#include "wmtp/core/error.h"
#include "wmtp/weights/torch_pickle.h"
#include "wmtp/weights/torch_zip.h"

WMTP_FUZZ_TARGET(torch_zip) {
  using namespace wmtp;
  const fuzz::MemoryFile file(bytes);
  const weights::TorchZip zip(storage::MappedFile::open(file.path()));
  const weights::ZipEntry* const pickle = zip.find("data.pkl");
  if (!pickle) return;
  try {
    zip.check_crc(*pickle);
  } catch (const Error&) {  // the pickle behind a wrong sum is read all the same
  }
  const auto tree = weights::parse_torch_pickle(zip.bytes(*pickle), zip.origin());
  for (const weights::PickledTensor& tensor : tree.tensors)
    if (const auto* storage = zip.find("data/" + tensor.storage_key)) zip.check_crc(*storage);
}
