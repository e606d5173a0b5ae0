#include "wmtp/tensor/storage_memory.h"

#include "wmtp/core/error.h"

namespace wmtp {
namespace {

c10::StorageImpl& storage_of(const Tensor& whole) {
  c10::StorageImpl& storage = *whole.storage().unsafeGetStorageImpl();
  WMTP_CHECK(whole.storage_offset() == 0 && whole.is_contiguous() && storage.allocator() != nullptr,
             "memory of a part of a tensor");
  return storage;
}

}  // namespace

void release_memory(const Tensor& whole) {
  c10::StorageImpl& storage = storage_of(whole);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, whole.device()));
  storage.set_nbytes(0);
}

bool provide_memory(const Tensor& whole) {
  c10::StorageImpl& storage = storage_of(whole);
  if (storage.nbytes() > 0) return false;
  storage.set_data_ptr_noswap(storage.allocator()->allocate(whole.nbytes()));
  storage.set_nbytes(whole.nbytes());
  return true;
}

}  // namespace wmtp
