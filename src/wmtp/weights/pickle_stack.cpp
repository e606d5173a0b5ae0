#include "wmtp/weights/pickle_stack.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/core/utf8.h"
#include "wmtp/storage/header_scanner.h"

namespace wmtp::weights {
namespace {

constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20, kMaxObjects = 1'000'000;
// Python's pickler puts up to 1000 key-value pairs of a dict on the stack before one SETITEMS.
constexpr std::size_t kMaxStack = 10'000;
constexpr int kMaxDepth = 100;

}  // namespace

PickleStack::PickleStack(std::span<const std::byte> bytes, std::string_view origin)
    : bytes_(bytes), origin_(origin) {
  if (bytes_.size() > kMaxPickleBytes)
    refuse(fmt::format("a pickle of {} bytes, the limit is {}", bytes_.size(), kMaxPickleBytes));
}

void PickleStack::refuse(std::string_view fact) const {
  throw Error(ErrorKind::data, "checkpoint",
              fmt::format("{}: pickle, byte {}: {}", origin_, op_at_, fact),
              "wmtp runs nothing from pickles; save plain tensors with torch.save or safetensors");
}

std::string_view PickleStack::take_bytes(std::uint64_t size) {
  if (size > bytes_left() + planted_off_by_one)
    refuse(fmt::format("{} bytes wanted, {} are left", size, bytes_left()));
  const std::string_view part(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
  at_ += size;
  return part;
}

std::string_view PickleStack::take_line() {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_left());
  const auto end = rest.find('\n');
  if (end == rest.npos) refuse("a line does not end");
  at_ += end + 1;
  return rest.substr(0, end);
}

PickleStack::Ref PickleStack::add(PickleNode fresh) {
  if (tree_.nodes.size() >= kMaxObjects) refuse("more than 1000000 objects");
  tree_.nodes.push_back(std::move(fresh));
  return static_cast<Ref>(tree_.nodes.size() - 1);
}

void PickleStack::append(Ref container, std::span<const Ref> items) {
  PickleNode& target = tree_.nodes[container];
  links_ += items.size();
  if (links_ > 4 * kMaxObjects) refuse("too many references between objects");
  for (const Ref item : items) target.depth = std::max(target.depth, 1 + tree_.nodes[item].depth);
  if (target.depth > kMaxDepth) refuse(fmt::format("objects nested deeper than {}", kMaxDepth));
  target.items.insert(target.items.end(), items.begin(), items.end());
}

void PickleStack::push(Ref ref) {
  if (stack_.size() >= kMaxStack)
    refuse(fmt::format("more than {} objects on the stack", kMaxStack));
  stack_.push_back(ref);
}

void PickleStack::push_text(std::string_view text) {
  if (find_invalid_utf8(text)) refuse("a text is not UTF-8");
  push_new({.kind = PickleKind::text, .text = text});
}

void PickleStack::push_long() {
  const auto size = take<std::uint8_t>();
  if (size > 8) refuse(fmt::format("an integer of {} bytes, the limit is 8", size));
  const std::string_view digits = take_bytes(size);
  const bool negative = size > 0 && (static_cast<std::uint8_t>(digits.back()) & 0x80) != 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = digits.size(); i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(digits[i]);
  push_int(static_cast<std::int64_t>(value));
}

void PickleStack::push_float() {
  const auto bits = __builtin_bswap64(take<std::uint64_t>());
  double value;
  std::memcpy(&value, &bits, sizeof value);
  push_new({.kind = PickleKind::number, .number = value});
}

void PickleStack::push_tuple(std::span<const Ref> items) {
  const Ref tuple = add({.kind = PickleKind::tuple});
  append(tuple, items);
  push(tuple);
}

void PickleStack::push_tuple_of(std::size_t count) {
  std::vector<Ref> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push_tuple(items);
}

PickleStack::Ref PickleStack::top() const {
  if (stack_.size() <= floor()) refuse("the stack is empty");
  return stack_.back();
}

PickleStack::Ref PickleStack::pop() {
  const Ref ref = top();
  stack_.pop_back();
  return ref;
}

void PickleStack::mark() {
  if (marks_.size() >= kMaxStack) refuse("too many MARKs");
  marks_.push_back(stack_.size());
}

std::vector<PickleStack::Ref> PickleStack::pop_to_mark() {
  if (marks_.empty()) refuse("there is no MARK");
  std::vector<Ref> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

void PickleStack::extend(std::span<const Ref> items, PickleKind kind, std::string_view opcode) {
  if (!is(top(), kind)) refuse(fmt::format("{} on an object it does not fit", opcode));
  if (kind == PickleKind::dict && items.size() % 2 != 0) refuse("a key without a value");
  append(top(), items);
}

void PickleStack::memoize(std::uint32_t key) {
  if (memo_.size() >= kMaxObjects) refuse("more than 1000000 memo entries");
  memo_[key] = top();
}

void PickleStack::recall(std::uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) refuse(fmt::format("memo entry {} does not exist", key));
  push(found->second);
}

PickleTree PickleStack::finish() {
  if (stack_.size() != 1 || !marks_.empty()) refuse("STOP does not leave exactly one object");
  tree_.root = stack_.back();
  return std::move(tree_);
}

}  // namespace wmtp::weights
