// Making and checking groups of ranks.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/comm/store.h"

namespace wmtp::comm {

// What a group is made from. BLOCKS while the ranks connect.
struct GroupSpec {
  std::string name = {};  // also its prefix in the store
  int rank = 0, world = 1;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  Store store = {};  // the run's store; the group clones its own connection
  std::chrono::milliseconds timeout =
      std::chrono::hours(1);        // c10d's own limit; the watchdog's is shorter
  std::string gloo_address = {};    // local address to use; empty: 127.0.0.1
  std::string gloo_interface = {};  // beats gloo_address
};

// Handed over by the GPU plugin; null where there is none.
using NcclFactory = std::unique_ptr<Communicator> (*)(const GroupSpec&);

std::unique_ptr<Communicator> make_single(std::string name, c10::Device device);
std::unique_ptr<Communicator> make_gloo(const GroupSpec& spec);
// Error device "built without CUDA" when `factory` is null.
std::unique_ptr<Communicator> make_nccl(const GroupSpec& spec, NcclFactory factory);

// COLLECTIVE, BLOCKS. The first collective of a group: the sum of all ranks must be W(W-1)/2.
void verify_group(Communicator& group);
// COLLECTIVE over the store, BLOCKS. Compares the recorded order of collectives between ranks;
// Error config naming the odd rank and the first collective that differs. Stops the recording.
struct OrderCheck {
  Store store = {};
  int rank = 0, world = 1;
  std::chrono::milliseconds timeout = std::chrono::seconds(120);
};
void check_collective_order(const std::vector<Communicator*>& groups, const OrderCheck& check);

}  // namespace wmtp::comm
