#include "wmtp/weights/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/weights/pickle_opcodes.h"
#include "wmtp/weights/pickle_stack.h"

namespace wmtp::weights {
namespace {

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

constexpr std::int64_t kMaxExcessBytes = std::int64_t{64} << 20;

class TorchMachine : public PickleStack {
 public:
  using PickleStack::PickleStack;

  PickleTree run() {
    do begin_opcode();
    while (step(take<std::uint8_t>()));
    return finish();
  }

 private:
  // The text of a permitted global, which outlives the pickle; anything else is refused by name.
  void push_global(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    for (const auto& [constant, dtype] : kStorages)
      if (constant == full) return push_new({.kind = PickleKind::global, .text = constant});
    for (const std::string_view constant : kOtherGlobals)
      if (constant == full) return push_new({.kind = PickleKind::global, .text = constant});
    refuse(fmt::format("the global {:.120} is not permitted", full));
  }
  void read_global() {
    const std::string_view module = take_line();
    push_global(module, take_line());
  }
  void stack_global() {
    const Ref name = pop(), module = pop();
    if (!is(name, PickleKind::text) || !is(module, PickleKind::text))
      refuse("STACK_GLOBAL without two texts");
    push_global(node(module).text, node(name).text);
  }

  void persistent_id() {
    const Ref id = pop();
    const PickleNode& given = node(id);
    const bool shaped = given.kind == PickleKind::tuple && given.items.size() == 5 &&
                        node(given.items[0]).kind == PickleKind::text &&
                        node(given.items[0]).text == "storage" &&
                        node(given.items[1]).kind == PickleKind::global &&
                        node(given.items[2]).kind == PickleKind::text &&
                        node(given.items[4]).kind == PickleKind::integer;
    if (!shaped) refuse("a persistent id that is no storage");
    PickleNode storage{.kind = PickleKind::storage, .items = given.items};
    push_new(std::move(storage));
  }

  void reduce() {
    const Ref arguments = pop(), callee = pop();
    if (node(callee).kind != PickleKind::global || node(arguments).kind != PickleKind::tuple)
      refuse("REDUCE of something that is no known global");
    const std::string_view name = node(callee).text;
    const std::vector<Ref> args = node(arguments).items;
    if (name == "collections.OrderedDict")
      push_ordered_dict(args);
    else if (name == "torch._utils._rebuild_tensor_v2")
      push_tensor(args);
    else if (name == "torch._utils._rebuild_parameter" && !args.empty() &&
             node(args[0]).kind == PickleKind::tensor)
      push(args[0]);
    else if (name == "torch.Size" && args.size() == 1 && node(args[0]).kind == PickleKind::tuple)
      push(args[0]);
    else
      refuse(fmt::format("a call of {} with these arguments is not permitted", name));
  }

  void push_ordered_dict(const std::vector<Ref>& args) {
    const Ref dict = add({.kind = PickleKind::dict, .ordered_dict = true});
    if (args.size() > 1 || (args.size() == 1 && node(args[0]).kind != PickleKind::list))
      refuse("an OrderedDict of something else than a list of pairs");
    if (args.size() == 1) {
      const std::vector<Ref> pairs = node(args[0]).items;
      for (const Ref pair : pairs) {
        const std::vector<Ref> items = node(pair).items;
        if (items.size() != 2) refuse("an OrderedDict of something else than a list of pairs");
        append(dict, items);
      }
    }
    push(dict);
  }

  std::int64_t integer_of(Ref ref, std::string_view what) const {
    if (node(ref).kind != PickleKind::integer || node(ref).integer < 0)
      refuse(fmt::format("the {} of a tensor is no non-negative integer", what));
    return node(ref).integer;
  }
  std::vector<std::int64_t> integers_of(Ref ref, std::string_view what) const {
    if (node(ref).kind != PickleKind::tuple)
      refuse(fmt::format("the {} of a tensor is no tuple", what));
    std::vector<std::int64_t> values;
    for (const Ref item : node(ref).items) values.push_back(integer_of(item, what));
    if (values.size() > 64) refuse("a tensor of more than 64 dimensions");
    return values;
  }

  void push_tensor(const std::vector<Ref>& args) {
    if (args.size() < 6 || args.size() > 7 || node(args[0]).kind != PickleKind::storage)
      refuse("_rebuild_tensor_v2 without a storage and five more arguments");
    const std::vector<Ref> storage = node(args[0]).items;
    PickledTensor tensor;
    const std::string_view type = node(storage[1]).text;
    const auto known = std::find_if(std::begin(kStorages), std::end(kStorages),
                                    [&](const auto& entry) { return entry.first == type; });
    if (known == std::end(kStorages)) refuse(fmt::format("{} is no storage type", type));
    tensor.dtype = known->second;
    tensor.storage_key = std::string(node(storage[2]).text);
    tensor.storage_numel = integer_of(storage[4], "storage size");
    tensor.offset = integer_of(args[1], "offset");
    tensor.shape = integers_of(args[2], "size");
    tensor.strides = integers_of(args[3], "stride");
    if (tensor.shape.size() != tensor.strides.size())
      refuse("a tensor with another number of strides");
    if (args.size() == 7) check_metadata(args[6]);
    check_reach(tensor);
    tree_.tensors.push_back(std::move(tensor));
    push_new({.kind = PickleKind::tensor,
              .integer = static_cast<std::int64_t>(tree_.tensors.size() - 1)});
  }

  // Views whose elements are conjugated or negated when they are read ({"neg": True}).
  void check_metadata(Ref metadata) const {
    if (is(metadata, PickleKind::none)) return;
    if (!is(metadata, PickleKind::dict)) refuse("the metadata of a tensor is no dict");
    const std::vector<Ref>& items = node(metadata).items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (!is(items[i + 1], PickleKind::boolean) || node(items[i + 1]).integer != 0)
        refuse(fmt::format("a tensor with the view bit {:.20}, which is not supported",
                           node(items[i]).text));
  }

  // The last reachable element lies inside the storage. Expanded and overlapping views may have
  // more elements than it, within a bound: a few bytes must not become terabytes of zeros.
  void check_reach(const PickledTensor& tensor) {
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
    const std::int64_t excess = std::max<std::int64_t>(count - tensor.storage_numel, 0);
    const auto item_bytes = static_cast<std::int64_t>(bits_of(tensor.dtype) / 8);
    if (excess > (kMaxExcessBytes - excess_bytes_) / item_bytes)
      refuse(
          fmt::format("a tensor {} is larger than its storage of {} elements; all such views "
                      "together may have {} bytes more than their storages",
                      shape_text(tensor.shape), tensor.storage_numel, kMaxExcessBytes));
    excess_bytes_ += excess * item_bytes;
  }

  void build() {
    pop();
    if (!is(top(), PickleKind::dict) || !node(top()).ordered_dict)
      refuse("BUILD on something else than an OrderedDict");
  }
  void protocol() {
    const auto version = take<std::uint8_t>();
    if (version < 2 || version > 5)
      refuse(fmt::format("pickle protocol {}, 2 to 5 are read", version));
  }
  void frame() {
    const auto size = take<std::uint64_t>();
    if (size > bytes_left())
      refuse(fmt::format("a frame of {} bytes, {} are left", size, bytes_left()));
  }
  void append_one() {
    const Ref item = pop();
    extend(std::array{item}, PickleKind::list, "APPEND");
  }
  void set_one() {
    const Ref value = pop(), key = pop();
    extend(std::array{key, value}, PickleKind::dict, "SETITEM");
  }
  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const {
    const auto name = pickle_opcode_name(opcode);
    refuse(name.empty() ? fmt::format("0x{:02x} is no opcode", opcode)
                        : fmt::format("the opcode {} is not permitted", name));
  }

  bool step(std::uint8_t opcode);

  std::int64_t excess_bytes_ = 0;  // of views beyond the sizes of their storages
};

// clang-format off
// One opcode; false after STOP.
bool TorchMachine::step(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80: protocol(); break;
    case 0x95: frame(); break;
    case '.': return false;
    case '(': mark(); break;
    case 'N': push_new({}); break;
    case 0x88: push_new({.kind = PickleKind::boolean, .integer = 1}); break;
    case 0x89: push_new({.kind = PickleKind::boolean, .integer = 0}); break;
    case 'J': push_int(take<std::int32_t>()); break;
    case 'K': push_int(take<std::uint8_t>()); break;
    case 'M': push_int(take<std::uint16_t>()); break;
    case 0x8a: push_long(); break;
    case 'G': push_float(); break;
    case 'X': push_text(take_bytes(take<std::uint32_t>())); break;
    case 0x8c: case 'U': push_text(take_bytes(take<std::uint8_t>())); break;
    case '}': push_new({.kind = PickleKind::dict}); break;
    case ']': push_new({.kind = PickleKind::list}); break;
    case ')': push_new({.kind = PickleKind::tuple}); break;
    case 't': push_tuple(pop_to_mark()); break;
    case 0x85: push_tuple_of(1); break;
    case 0x86: push_tuple_of(2); break;
    case 0x87: push_tuple_of(3); break;
    case 'a': append_one(); break;
    case 'e': extend(pop_to_mark(), PickleKind::list, "APPENDS"); break;
    case 's': set_one(); break;
    case 'u': extend(pop_to_mark(), PickleKind::dict, "SETITEMS"); break;
    case 'h': recall(take<std::uint8_t>()); break;
    case 'j': recall(take<std::uint32_t>()); break;
    case 'q': memoize(take<std::uint8_t>()); break;
    case 'r': memoize(take<std::uint32_t>()); break;
    case 0x94: memoize_next(); break;
    case 'c': read_global(); break;
    case 0x93: stack_global(); break;
    case 'R': reduce(); break;
    case 'b': build(); break;
    case 'Q': persistent_id(); break;
    default: refuse_opcode(opcode);
  }
  return true;
}
// clang-format on

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
  return TorchMachine(bytes, origin).run();
}

}  // namespace wmtp::weights
