// The machine a pickle is written for, without its dangerous half: bytes, a stack with marks, a
// memo, and objects as nodes of a tree; all of it bounded. Errors are ErrorKind::data and name the
// opcode's offset.
#pragma once
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wmtp/weights/torch_pickle.h"

namespace wmtp::weights {

class PickleStack {
 public:
  using Ref = std::uint32_t;  // index of a node

  PickleStack(std::span<const std::byte> bytes, std::string_view origin);
  [[noreturn]] void refuse(std::string_view fact) const;

 protected:
  // Reading.
  void begin_opcode() { op_at_ = at_; }
  template <class Int>
  Int take() {
    Int value;
    std::memcpy(&value, take_bytes(sizeof(Int)).data(), sizeof(Int));
    return value;
  }
  std::string_view take_bytes(std::uint64_t size);
  std::string_view take_line();
  std::size_t bytes_left() const { return bytes_.size() - at_; }

  // Objects.
  Ref add(PickleNode node);
  void append(Ref container, std::span<const Ref> items);  // links items into a list, tuple or dict
  const PickleNode& node(Ref ref) const { return tree_.nodes[ref]; }
  bool is(Ref ref, PickleKind kind) const { return tree_.nodes[ref].kind == kind; }

  // The stack.
  void push(Ref ref);
  void push_new(PickleNode fresh) { push(add(std::move(fresh))); }
  void push_int(std::int64_t value) { push_new({.kind = PickleKind::integer, .integer = value}); }
  void push_text(std::string_view text);
  void push_long();
  void push_float();
  void push_tuple(std::span<const Ref> items);
  void push_tuple_of(std::size_t count);
  Ref pop();
  Ref top() const;
  void mark();
  std::vector<Ref> pop_to_mark();
  // Adds items to the container on top, which must be of that kind.
  void extend(std::span<const Ref> items, PickleKind kind, std::string_view opcode);

  void memoize(std::uint32_t key);
  void memoize_next() { memoize(static_cast<std::uint32_t>(memo_.size())); }
  void recall(std::uint32_t key);

  PickleTree finish();  // exactly one object is left

  PickleTree tree_;

 private:
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::span<const std::byte> bytes_;
  std::string_view origin_;
  std::size_t at_ = 0, op_at_ = 0, links_ = 0;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Ref> memo_;
};

}  // namespace wmtp::weights
