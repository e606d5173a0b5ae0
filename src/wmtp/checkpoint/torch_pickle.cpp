#include "wmtp/checkpoint/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "wmtp/checkpoint/header_scanner.h"
#include "wmtp/checkpoint/pickle_opcodes.h"
#include "wmtp/core/error.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::size_t kMaxPickleBytes = std::size_t{64} << 20, kMaxObjects = 1'000'000;
// Python's pickler puts up to 1000 key-value pairs of a dict on the stack before one SETITEMS.
constexpr std::size_t kMaxStack = 10'000;
constexpr int kMaxDepth = 100;

constexpr std::pair<std::string_view, StoredDtype> kStorages[] = {
    {"torch.DoubleStorage", StoredDtype::F64}, {"torch.FloatStorage", StoredDtype::F32},
    {"torch.HalfStorage", StoredDtype::F16},   {"torch.BFloat16Storage", StoredDtype::BF16},
    {"torch.LongStorage", StoredDtype::I64},   {"torch.IntStorage", StoredDtype::I32},
    {"torch.ShortStorage", StoredDtype::I16},  {"torch.CharStorage", StoredDtype::I8},
    {"torch.ByteStorage", StoredDtype::U8},    {"torch.BoolStorage", StoredDtype::BOOL},
};
constexpr std::string_view kOtherGlobals[] = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.float64",
    "torch.float32",
    "torch.float16",
    "torch.bfloat16",
    "torch.int64",
    "torch.int32",
    "torch.int16",
    "torch.int8",
    "torch.uint8",
    "torch.bool",
};

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::string_view origin)
      : bytes_(bytes), origin_(origin) {}

  PickleTree run() {
    if (bytes_.size() > kMaxPickleBytes)
      refuse(fmt::format("a pickle of {} bytes, the limit is {}", bytes_.size(), kMaxPickleBytes));
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) refuse("STOP does not leave exactly one object");
    tree_.root = stack_.back();
    return std::move(tree_);
  }

 private:
  using Ref = std::uint32_t;

  [[noreturn]] void refuse(std::string_view fact) const {
    throw Error(
        ErrorKind::data, "checkpoint",
        fmt::format("{}: pickle, byte {}: {}", origin_, op_at_, fact),
        "wmtp runs nothing from pickles; save plain tensors with torch.save or safetensors");
  }

  template <class Int>
  Int take() {
    Int value;
    std::memcpy(&value, take_bytes(sizeof(Int)).data(), sizeof(Int));
    return value;
  }
  std::string_view take_bytes(std::uint64_t size) {
    if (size > bytes_.size() - at_)
      refuse(fmt::format("{} bytes wanted, {} are left", size, bytes_.size() - at_));
    const std::string_view part(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return part;
  }
  std::string_view take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                bytes_.size() - at_);
    const auto end = rest.find('\n');
    if (end == rest.npos) refuse("a line does not end");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  Ref add(PickleNode node) {
    if (tree_.nodes.size() >= kMaxObjects) refuse("more than 1000000 objects");
    tree_.nodes.push_back(std::move(node));
    return static_cast<Ref>(tree_.nodes.size() - 1);
  }
  void push(Ref ref) {
    if (stack_.size() >= kMaxStack)
      refuse(fmt::format("more than {} objects on the stack", kMaxStack));
    stack_.push_back(ref);
  }
  void push_new(PickleNode node) { push(add(std::move(node))); }
  void push_int(std::int64_t value) { push_new({.kind = PickleKind::integer, .integer = value}); }
  void push_text(std::string_view text) {
    if (find_invalid_utf8(text) != text.npos) refuse("a text is not UTF-8");
    push_new({.kind = PickleKind::text, .text = text});
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Ref pop() {
    if (stack_.size() <= floor()) refuse("the stack is empty");
    const Ref ref = stack_.back();
    stack_.pop_back();
    return ref;
  }
  Ref top() {
    if (stack_.size() <= floor()) refuse("the stack is empty");
    return stack_.back();
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) refuse("there is no MARK");
    std::vector<Ref> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                           stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  void append(Ref container, std::span<const Ref> items) {
    PickleNode& node = tree_.nodes[container];
    links_ += items.size();
    if (links_ > 4 * kMaxObjects) refuse("too many references between objects");
    for (const Ref item : items) node.depth = std::max(node.depth, 1 + tree_.nodes[item].depth);
    if (node.depth > kMaxDepth) refuse(fmt::format("objects nested deeper than {}", kMaxDepth));
    node.items.insert(node.items.end(), items.begin(), items.end());
  }
  void push_tuple(const std::vector<Ref>& items) {
    const Ref tuple = add({.kind = PickleKind::tuple});
    append(tuple, items);
    push(tuple);
  }
  void push_tuple_of(std::size_t count) {
    std::vector<Ref> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(items);
  }
  void extend(std::span<const Ref> items, PickleKind kind, std::string_view opcode) {
    const Ref target = top();
    if (tree_.nodes[target].kind != kind)
      refuse(fmt::format("{} on an object it does not fit", opcode));
    if (kind == PickleKind::dict && items.size() % 2 != 0) refuse("a key without a value");
    append(target, items);
  }

  void memoize(std::uint32_t key) {
    if (memo_.size() >= kMaxObjects) refuse("more than 1000000 memo entries");
    memo_[key] = top();
  }
  void recall(std::uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse(fmt::format("memo entry {} does not exist", key));
    push(found->second);
  }

  void push_global(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    const bool storage = std::any_of(std::begin(kStorages), std::end(kStorages),
                                     [&](const auto& known) { return known.first == full; });
    const bool known = storage || std::find(std::begin(kOtherGlobals), std::end(kOtherGlobals),
                                            full) != std::end(kOtherGlobals);
    if (!known) refuse(fmt::format("the global {:.120} is not permitted", full));
    // Texts of globals need a home; the known names are constants.
    for (const auto& [constant, dtype] : kStorages)
      if (constant == full) return push_new({.kind = PickleKind::global, .text = constant});
    for (const std::string_view constant : kOtherGlobals)
      if (constant == full) return push_new({.kind = PickleKind::global, .text = constant});
  }
  void stack_global() {
    const Ref name = pop(), module = pop();
    if (tree_[name].kind != PickleKind::text || tree_[module].kind != PickleKind::text)
      refuse("STACK_GLOBAL without two texts");
    push_global(tree_[module].text, tree_[name].text);
  }

  void persistent_id() {
    const Ref id = pop();
    const PickleNode& node = tree_[id];
    const bool shaped = node.kind == PickleKind::tuple && node.items.size() == 5 &&
                        tree_[node.items[0]].kind == PickleKind::text &&
                        tree_[node.items[0]].text == "storage" &&
                        tree_[node.items[1]].kind == PickleKind::global &&
                        tree_[node.items[2]].kind == PickleKind::text &&
                        tree_[node.items[4]].kind == PickleKind::integer;
    if (!shaped) refuse("a persistent id that is no storage");
    PickleNode storage{.kind = PickleKind::storage, .items = node.items};
    push_new(std::move(storage));
  }

  void reduce() {
    const Ref arguments = pop(), callee = pop();
    if (tree_[callee].kind != PickleKind::global || tree_[arguments].kind != PickleKind::tuple)
      refuse("REDUCE of something that is no known global");
    const std::string_view name = tree_[callee].text;
    const std::vector<Ref> args = tree_[arguments].items;
    if (name == "collections.OrderedDict")
      push_ordered_dict(args);
    else if (name == "torch._utils._rebuild_tensor_v2")
      push_tensor(args);
    else if (name == "torch._utils._rebuild_parameter" && !args.empty() &&
             tree_[args[0]].kind == PickleKind::tensor)
      push(args[0]);
    else if (name == "torch.Size" && args.size() == 1 && tree_[args[0]].kind == PickleKind::tuple)
      push(args[0]);
    else
      refuse(fmt::format("a call of {} with these arguments is not permitted", name));
  }

  void push_ordered_dict(const std::vector<Ref>& args) {
    const Ref dict = add({.kind = PickleKind::dict, .ordered_dict = true});
    if (args.size() > 1 || (args.size() == 1 && tree_[args[0]].kind != PickleKind::list))
      refuse("an OrderedDict of something else than a list of pairs");
    if (args.size() == 1) {
      const std::vector<Ref> pairs = tree_[args[0]].items;
      for (const Ref pair : pairs) {
        const std::vector<Ref> items = tree_[pair].items;
        if (items.size() != 2) refuse("an OrderedDict of something else than a list of pairs");
        append(dict, items);
      }
    }
    push(dict);
  }

  std::int64_t integer_of(Ref ref, std::string_view what) const {
    if (tree_[ref].kind != PickleKind::integer || tree_[ref].integer < 0)
      refuse(fmt::format("the {} of a tensor is no non-negative integer", what));
    return tree_[ref].integer;
  }
  std::vector<std::int64_t> integers_of(Ref ref, std::string_view what) const {
    if (tree_[ref].kind != PickleKind::tuple)
      refuse(fmt::format("the {} of a tensor is no tuple", what));
    std::vector<std::int64_t> values;
    for (const Ref item : tree_[ref].items) values.push_back(integer_of(item, what));
    if (values.size() > 64) refuse("a tensor of more than 64 dimensions");
    return values;
  }

  void push_tensor(const std::vector<Ref>& args) {
    if (args.size() < 6 || args.size() > 7 || tree_[args[0]].kind != PickleKind::storage)
      refuse("_rebuild_tensor_v2 without a storage and five more arguments");
    const std::vector<Ref> storage = tree_[args[0]].items;
    PickledTensor tensor;
    const std::string_view type = tree_[storage[1]].text;
    const auto known = std::find_if(std::begin(kStorages), std::end(kStorages),
                                    [&](const auto& entry) { return entry.first == type; });
    if (known == std::end(kStorages)) refuse(fmt::format("{} is no storage type", type));
    tensor.dtype = known->second;
    tensor.storage_key = std::string(tree_[storage[2]].text);
    tensor.storage_numel = integer_of(storage[4], "storage size");
    tensor.offset = integer_of(args[1], "offset");
    tensor.shape = integers_of(args[2], "size");
    tensor.strides = integers_of(args[3], "stride");
    if (tensor.shape.size() != tensor.strides.size())
      refuse("a tensor with another number of strides");
    check_reach(tensor);
    tree_.tensors.push_back(std::move(tensor));
    push_new({.kind = PickleKind::tensor,
              .integer = static_cast<std::int64_t>(tree_.tensors.size() - 1)});
  }

  // The last reachable element lies inside the storage, and the tensor is no larger than it.
  void check_reach(const PickledTensor& tensor) const {
    std::int64_t last = tensor.offset, count = 1;
    bool overflow = false;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      std::int64_t span = 0;
      overflow |= __builtin_mul_overflow(count, tensor.shape[i], &count);
      overflow |= tensor.shape[i] > 0 &&
                  __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &span);
      overflow |= __builtin_add_overflow(last, span, &last);
    }
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) {
      if (tensor.offset > tensor.storage_numel) refuse("a tensor reaches beyond its storage");
      return;
    }
    if (overflow || last >= tensor.storage_numel)
      refuse(fmt::format("a tensor {} reaches beyond its storage of {} elements",
                         shape_text(tensor.shape), tensor.storage_numel));
    if (count > tensor.storage_numel)
      refuse(fmt::format("a tensor {} is larger than its storage of {} elements",
                         shape_text(tensor.shape), tensor.storage_numel));
  }

  void build() {
    pop();
    if (tree_[top()].kind != PickleKind::dict || !tree_[top()].ordered_dict)
      refuse("BUILD on something else than an OrderedDict");
  }

  void push_long() {
    const auto size = take<std::uint8_t>();
    if (size > 8) refuse(fmt::format("an integer of {} bytes, the limit is 8", size));
    const std::string_view digits = take_bytes(size);
    std::uint64_t value = size > 0 && (digits.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(digits[i]);
    push_int(static_cast<std::int64_t>(value));
  }
  void push_float() {
    auto bits = __builtin_bswap64(take<std::uint64_t>());
    double value;
    std::memcpy(&value, &bits, sizeof value);
    push_new({.kind = PickleKind::number, .number = value});
  }
  void protocol() {
    const auto version = take<std::uint8_t>();
    if (version < 2 || version > 5)
      refuse(fmt::format("pickle protocol {}, 2 to 5 are read", version));
  }
  void append_one() {
    const Ref item = pop();
    extend(std::array{item}, PickleKind::list, "APPEND");
  }
  void set_one() {
    const Ref value = pop(), key = pop();
    extend(std::array{key, value}, PickleKind::dict, "SETITEM");
  }
  void frame() {
    const auto size = take<std::uint64_t>();
    if (size > bytes_.size() - at_)
      refuse(fmt::format("a frame of {} bytes, {} are left", size, bytes_.size() - at_));
  }

  bool step();

  std::span<const std::byte> bytes_;
  std::string_view origin_;
  std::size_t at_ = 0, op_at_ = 0, links_ = 0;
  PickleTree tree_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Ref> memo_;
};

// One opcode; false after STOP.
bool Machine::step() {
  op_at_ = at_;
  const auto opcode = take<std::uint8_t>();
  switch (opcode) {
    case 0x80:
      protocol();
      break;
    case 0x95:
      frame();
      break;
    case '.':
      return false;
    case '(':
      if (marks_.size() >= kMaxStack) refuse("too many MARKs");
      marks_.push_back(stack_.size());
      break;
    case 'N':
      push_new({});
      break;
    case 0x88:
      push_new({.kind = PickleKind::boolean, .integer = 1});
      break;
    case 0x89:
      push_new({.kind = PickleKind::boolean, .integer = 0});
      break;
    case 'J':
      push_int(take<std::int32_t>());
      break;
    case 'K':
      push_int(take<std::uint8_t>());
      break;
    case 'M':
      push_int(take<std::uint16_t>());
      break;
    case 0x8a:
      push_long();
      break;
    case 'G':
      push_float();
      break;
    case 'X':
      push_text(take_bytes(take<std::uint32_t>()));
      break;
    case 0x8c:
      push_text(take_bytes(take<std::uint8_t>()));
      break;
    case 'U':
      push_text(take_bytes(take<std::uint8_t>()));
      break;
    case '}':
      push_new({.kind = PickleKind::dict});
      break;
    case ']':
      push_new({.kind = PickleKind::list});
      break;
    case ')':
      push_new({.kind = PickleKind::tuple});
      break;
    case 't':
      push_tuple(pop_to_mark());
      break;
    case 0x85:
      push_tuple_of(1);
      break;
    case 0x86:
      push_tuple_of(2);
      break;
    case 0x87:
      push_tuple_of(3);
      break;
    case 'a':
      append_one();
      break;
    case 'e':
      extend(pop_to_mark(), PickleKind::list, "APPENDS");
      break;
    case 's':
      set_one();
      break;
    case 'u':
      extend(pop_to_mark(), PickleKind::dict, "SETITEMS");
      break;
    case 'h':
      recall(take<std::uint8_t>());
      break;
    case 'j':
      recall(take<std::uint32_t>());
      break;
    case 'q':
      memoize(take<std::uint8_t>());
      break;
    case 'r':
      memoize(take<std::uint32_t>());
      break;
    case 0x94:
      memoize(static_cast<std::uint32_t>(memo_.size()));
      break;
    case 'c': {
      const std::string_view module = take_line();
      push_global(module, take_line());
      break;
    }
    case 0x93:
      stack_global();
      break;
    case 'R':
      reduce();
      break;
    case 'b':
      build();
      break;
    case 'Q':
      persistent_id();
      break;
    default: {
      const auto name = pickle_opcode_name(opcode);
      refuse(name.empty() ? fmt::format("0x{:02x} is no opcode", opcode)
                          : fmt::format("the opcode {} is not permitted", name));
    }
  }
  return true;
}

}  // namespace

std::optional<std::uint32_t> PickleTree::lookup(std::uint32_t dict, std::string_view key) const {
  if (nodes[dict].kind != PickleKind::dict) return std::nullopt;
  const auto& items = nodes[dict].items;
  for (std::size_t i = items.size(); i >= 2; i -= 2)
    if (nodes[items[i - 2]].kind == PickleKind::text && nodes[items[i - 2]].text == key)
      return items[i - 1];
  return std::nullopt;
}

PickleTree parse_torch_pickle(std::span<const std::byte> bytes, std::string_view origin) {
  return Machine(bytes, origin).run();
}

}  // namespace wmtp::checkpoint
