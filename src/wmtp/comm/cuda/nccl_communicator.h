// The NCCL body, for the plugin's table. Its type is comm::NcclFactory.
#pragma once
#include <memory>

#include "wmtp/comm/communicator.h"
#include "wmtp/comm/groups.h"

namespace wmtp::comm {

// BLOCKS while the ranks connect. REQUIRES spec.device to be a CUDA device with an index.
std::unique_ptr<Communicator> make_nccl_communicator(const GroupSpec& spec);

}  // namespace wmtp::comm
