// NCCL's place is taken by Gloo over the host twins of the tensors.
#pragma once
#include <memory>

#include "wmtp/comm/groups.h"

namespace wmtp::emulated {

std::unique_ptr<comm::Communicator> make_communicator(const comm::GroupSpec& spec);

}  // namespace wmtp::emulated
