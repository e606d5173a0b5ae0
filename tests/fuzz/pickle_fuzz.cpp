#include "fuzz/fuzz.h"
#include "wmtp/weights/torch_pickle.h"

WMTP_FUZZ_TARGET(pickle) {
  using namespace wmtp;
  const weights::PickleTree tree = weights::parse_torch_pickle(bytes, "file");
  tree.lookup(tree.root, "model_state_dict");
  for (const weights::PickledTensor& tensor : tree.tensors)
    fuzz::require(tensor.shape.size() == tensor.strides.size() && tensor.offset >= 0 &&
                      tensor.offset <= tensor.storage_numel,
                  "a tensor outside its storage");
}
