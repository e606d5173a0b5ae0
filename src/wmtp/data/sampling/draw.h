// Drawing without replacement from a list, the step all samplers share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wmtp/core/rng.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {

inline std::uint32_t key_row(std::uint32_t row) {
  return row;
}
inline std::uint32_t key_row(const RowPair& pair) {
  return pair.positive;
}

// `count` of `items`, shuffled on stream `name`; with `used`, those not used come first and the
// others are shuffled on "<name>/again". Without shuffling: the first ones. REQUIRES count <=
// items.size().
template <class Item>
std::vector<Item> take(std::vector<Item> items, std::uint64_t count, const DrawRequest& request,
                       const std::string& name, DrawReport& report) {
  auto fresh_end = items.end();
  if (request.used)
    fresh_end = std::stable_partition(items.begin(), items.end(), [&](const Item& item) {
      return !(*request.used)[key_row(item)];
    });
  const auto num_fresh = static_cast<std::size_t>(fresh_end - items.begin());
  if (num_fresh < count) report.num_drawn_again += count - num_fresh;
  if (request.options.shuffle) {
    const std::uint64_t seed = static_cast<std::uint64_t>(request.options.seed);
    RngStream(seed, request.prefix + name).shuffle(std::span(items).first(num_fresh));
    if (num_fresh < count)
      RngStream(seed, request.prefix + name + "/again")
          .shuffle(std::span(items).subspan(num_fresh));
  }
  items.resize(count);
  return items;
}

template <class Item>
void mark_used(const DrawRequest& request, const std::vector<Item>& items) {
  if (!request.used) return;
  for (const Item& item : items) (*request.used)[key_row(item)] = true;
}

}  // namespace wmtp::data
