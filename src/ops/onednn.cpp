#include "ops/onednn.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <string>

#include "core/error.h"

static_assert(DNNL_VERSION_MAJOR == 2, "the names and signatures below are those of oneDNN 2");

namespace taper::onednn {
namespace {

class Library {
  void* handle_ = open();  // before the functions: members are initialised in order

 public:
  static const Library& get() {
    static const Library library;
    return library;
  }

#define TAPER_DNNL(name) decltype(&::name) name = load<decltype(&::name)>(#name)
  TAPER_DNNL(dnnl_engine_create);
  TAPER_DNNL(dnnl_stream_create);
  TAPER_DNNL(dnnl_stream_wait);
  TAPER_DNNL(dnnl_stream_destroy);
  TAPER_DNNL(dnnl_memory_desc_init_by_strides);
  TAPER_DNNL(dnnl_memory_create);
  TAPER_DNNL(dnnl_memory_set_data_handle);
  TAPER_DNNL(dnnl_memory_destroy);
  TAPER_DNNL(dnnl_post_ops_create);
  TAPER_DNNL(dnnl_post_ops_append_sum);
  TAPER_DNNL(dnnl_post_ops_append_binary);
  TAPER_DNNL(dnnl_post_ops_destroy);
  TAPER_DNNL(dnnl_primitive_attr_create);
  TAPER_DNNL(dnnl_primitive_attr_set_post_ops);
  TAPER_DNNL(dnnl_primitive_attr_destroy);
  TAPER_DNNL(dnnl_matmul_desc_init);
  TAPER_DNNL(dnnl_primitive_desc_create);
  TAPER_DNNL(dnnl_primitive_desc_destroy);
  TAPER_DNNL(dnnl_primitive_create);
  TAPER_DNNL(dnnl_primitive_execute);
  TAPER_DNNL(dnnl_primitive_destroy);
  TAPER_DNNL(dnnl_get_effective_cpu_isa);
#undef TAPER_DNNL

  dnnl_engine_t engine = nullptr;

  // oneDNN splits over OpenMP's threads, whose number each thread sets for what it starts itself.
  void stay_in_this_thread() const {
    thread_local bool done = false;
    if (done) return;
    done = true;
    using SetNumThreads = void (*)(int);
    if (const auto set = reinterpret_cast<SetNumThreads>(::dlsym(handle_, "omp_set_num_threads")))
      set(1);
  }

 private:
  Library() {
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
      throw ResourceError("oneDNN does not start", "is this CPU supported by libdnnl?");
  }

  static void* open() {
    const std::string name = fmt::format("libdnnl.so.{}", DNNL_VERSION_MAJOR);
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    throw ResourceError(fmt::format("training needs the library oneDNN: {}", ::dlerror()),
                        "install it with: apt-get install libdnnl2");
  }

  template <typename Function>
  Function load(const char* name) const {
    void* function = ::dlsym(handle_, name);
    if (!function)
      throw ResourceError(fmt::format("libdnnl.so.{} has no {}", DNNL_VERSION_MAJOR, name),
                          "install the release of libdnnl that taper was built with");
    return reinterpret_cast<Function>(function);
  }
};

void check(dnnl_status_t status, const Product& p) {
  if (status == dnnl_success) return;
  const bool memory = status == dnnl_out_of_memory;
  throw ResourceError(
      fmt::format("oneDNN cannot multiply [{}, {}] by [{}, {}]: {}", p.m, p.k, p.k, p.n,
                  memory ? "out of memory" : fmt::format("status {}", static_cast<int>(status))),
      memory ? "lower train.window or train.threads" : "");
}

dnnl_data_type_t type_of(Type type) { return type == Type::kFloat ? dnnl_f32 : dnnl_bf16; }

// Instruction sets are sets of bits.
bool cpu_has(dnnl_cpu_isa_t wanted) {
  const auto bits = static_cast<unsigned>(Library::get().dnnl_get_effective_cpu_isa());
  return (bits & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

}  // namespace

struct Matmul::Impl {
  enum Operand { kA, kB, kC, kOther, kOperands };

  explicit Impl(const Product& description) : product(description) {
    try {
      create();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Impl() { destroy(); }

  void create() {
    const Product& p = product;
    dnnl_memory_desc_t descriptions[kOperands];
    const auto describe = [&](Operand operand, int64_t rows, int64_t columns, Type type,
                              int64_t row_stride, int64_t column_stride) {
      const dnnl_dims_t sizes = {rows, columns}, strides = {row_stride, column_stride};
      check(dnnl.dnnl_memory_desc_init_by_strides(&descriptions[operand], 2, sizes, type_of(type),
                                                  strides),
            p);
      check(dnnl.dnnl_memory_create(&memory[operand], &descriptions[operand], dnnl.engine,
                                    DNNL_MEMORY_NONE),
            p);
    };
    describe(kA, p.m, p.k, p.in, p.a_rows, p.a_columns);
    describe(kB, p.k, p.n, p.in, p.b_rows, p.b_columns);
    describe(kC, p.m, p.n, p.out, p.c_rows, 1);
    describe(kOther, p.m, p.n, p.out, p.c_rows, 1);

    check(dnnl.dnnl_post_ops_create(&after), p);
    if (p.after == After::kAddToResult) check(dnnl.dnnl_post_ops_append_sum(after, 1.0f), p);
    if (p.after == After::kAddOther)
      check(dnnl.dnnl_post_ops_append_binary(after, dnnl_binary_add, &descriptions[kOther]), p);
    check(dnnl.dnnl_primitive_attr_create(&attributes), p);
    check(dnnl.dnnl_primitive_attr_set_post_ops(attributes, after), p);

    dnnl_matmul_desc_t matmul;
    check(dnnl.dnnl_matmul_desc_init(&matmul, &descriptions[kA], &descriptions[kB], nullptr,
                                     &descriptions[kC]),
          p);
    check(dnnl.dnnl_primitive_desc_create(&primitive_description, &matmul, attributes, dnnl.engine,
                                          nullptr),
          p);
    check(dnnl.dnnl_primitive_create(&primitive, primitive_description), p);
    check(dnnl.dnnl_stream_create(&stream, dnnl.engine, dnnl_stream_default_flags), p);
  }

  void destroy() {
    for (dnnl_memory_t each : memory) dnnl.dnnl_memory_destroy(each);
    dnnl.dnnl_post_ops_destroy(after);
    dnnl.dnnl_primitive_attr_destroy(attributes);
    dnnl.dnnl_primitive_desc_destroy(primitive_description);
    dnnl.dnnl_primitive_destroy(primitive);
    dnnl.dnnl_stream_destroy(stream);
  }

  const Library& dnnl = Library::get();
  Product product;
  dnnl_memory_t memory[kOperands] = {};
  dnnl_post_ops_t after = nullptr;
  dnnl_primitive_attr_t attributes = nullptr;
  dnnl_primitive_desc_t primitive_description = nullptr;
  dnnl_primitive_t primitive = nullptr;
  dnnl_stream_t stream = nullptr;
};

Matmul::Matmul(const Product& product) {
  Library::get().stay_in_this_thread();
  impl_ = std::make_unique<Impl>(product);
}

Matmul::~Matmul() = default;

void Matmul::run(const void* a, const void* b, void* c, const void* other) {
  const Library& dnnl = impl_->dnnl;
  dnnl.stay_in_this_thread();
  const void* data[Impl::kOperands] = {a, b, c, other};
  for (int i = 0; i < Impl::kOperands; ++i)
    check(dnnl.dnnl_memory_set_data_handle(impl_->memory[i], const_cast<void*>(data[i])),
          impl_->product);
  const dnnl_exec_arg_t arguments[] = {
      {DNNL_ARG_SRC, impl_->memory[Impl::kA]},
      {DNNL_ARG_WEIGHTS, impl_->memory[Impl::kB]},
      {DNNL_ARG_DST, impl_->memory[Impl::kC]},
      {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, impl_->memory[Impl::kOther]}};
  const int count = impl_->product.after == After::kAddOther ? 4 : 3;
  check(dnnl.dnnl_primitive_execute(impl_->primitive, impl_->stream, count, arguments),
        impl_->product);
  check(dnnl.dnnl_stream_wait(impl_->stream), impl_->product);
}

bool has_bf16() {
  static const bool has = cpu_has(dnnl_cpu_isa_avx512_core);
  return has;
}

bool has_fast_bf16() { return cpu_has(dnnl_cpu_isa_avx512_core_bf16); }

}  // namespace taper::onednn
