// storage's description of stored tensors under the names that weight sources use.
#pragma once
#include "wmtp/storage/safetensors_header.h"
#include "wmtp/storage/stored_tensor.h"

namespace wmtp::weights {

using storage::bits_of;
using storage::Metadata;
using storage::name_of;
using storage::numel;
using storage::shape_text;
using storage::stored_dtype;
using storage::StoredDtype;
using storage::StoredTensor;
using storage::tensor_bytes;

}  // namespace wmtp::weights
