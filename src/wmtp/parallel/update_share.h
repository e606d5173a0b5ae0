// How the optimizer's updates and the products of the next forward pass share a GPU. Updates are
// bound by memory: a few multiprocessors move most of what all of them would, and the others go on
// with products, which lose less than the updates would take alone.
#pragma once
#include <cstdint>

namespace wmtp::parallel {

struct UpdateWork {
  std::int64_t trained = 0, weights = 0;  // of this rank: what is updated, what a pass computes with
  std::int64_t tokens = 0;                // of the pass beside it
};

struct UpdateShare {
  int multiprocessors = 0;  // that updates take; 0: all, before and behind products
  // Of the pass's units, those beside which updates run: at the next one all are waited for.
  double of_units = 0.5;
};

// Beside products where updates would be over by the middle of the pass, and are worth it.
UpdateShare update_share(const UpdateWork& work);

}  // namespace wmtp::parallel
