// What every body of Communicator must do: one suite for single, gloo and nccl. Runs on every rank
// of the group, on the group's device.
#pragma once
#include "wmtp/comm/communicator.h"

namespace wmtp::test {

void check_conformance(comm::Communicator& group);

}  // namespace wmtp::test
