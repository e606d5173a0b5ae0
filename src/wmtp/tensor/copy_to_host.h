// Numbers of a device on their way to the host, which goes on and asks for them later.
#pragma once
#include <c10/core/Event.h>

#include <optional>

#include "wmtp/tensor/tensor.h"

namespace wmtp {

class HostCopy {
 public:
  // STREAM: behind what the current one has been given. An undefined tensor stays undefined. On a
  // CPU it is the tensor itself.
  explicit HostCopy(const Tensor& on_device);

  // BLOCKS until the stream has come to the copy; for nothing that was enqueued since.
  const Tensor& wait() const;

 private:
  Tensor host_;
  std::optional<c10::Event> copied_;  // absent: it is there
};

}  // namespace wmtp
