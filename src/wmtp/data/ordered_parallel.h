// Parallel work whose results come back in the order of the input, so that output never depends on
// the number of threads.
#pragma once
#include <deque>
#include <future>
#include <memory>
#include <utility>

#include "wmtp/core/thread_pool.h"

namespace wmtp::data {

// produce(Item&) -> bool and consume(Result) run in the calling thread, transform(Item&) -> Result
// in `num_threads` others, at most 2 * num_threads items at once. The first exception in input
// order wins.
template <class Item, class Produce, class Transform, class Consume>
void ordered_parallel(int num_threads, Produce produce, Transform transform, Consume consume) {
  Item item;
  if (num_threads <= 1) {
    while (produce(item)) consume(transform(item));
    return;
  }
  std::deque<std::future<decltype(transform(item))>> pending;
  ThreadPool pool(num_threads);
  const auto take_oldest = [&] {
    auto oldest = std::move(pending.front());
    pending.pop_front();
    consume(oldest.get());
  };
  while (produce(item)) {
    auto box = std::make_shared<Item>(std::move(item));
    item = Item{};
    pending.push_back(pool.submit([box, &transform] { return transform(*box); }));
    if (pending.size() >= 2 * static_cast<std::size_t>(num_threads)) take_oldest();
  }
  while (!pending.empty()) take_oldest();
}

}  // namespace wmtp::data
