// What lowered kernels call. A line of four slashes begins a text and names it; `$name` is filled in.
//
// The first texts are bodies, in upstream MLIR, for functions that linalg only declares. The pipeline
// inlines them. The rest is the runtime, in the LLVM dialect, appended after the pipeline: LLVM optimises
// both together with the kernel, and no C is compiled.

//// rows
// A function over tensors: $body for each of its rows along an axis, $n elements that lie %inner apart
// from %base on. %in_flat is the first parameter and %out_flat the result.
%axis = arith.index_cast %p$axis : $axis_type to index
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%total = arith.constant $out_count : index
%n_0 = arith.constant 1 : index
%inner_0 = arith.constant 1 : index
$select
%n = arith.maxsi %n_$rank, %c1 : index
%inner = arith.maxsi %inner_$rank, %c1 : index
%span = arith.muli %n, %inner : index
%last = arith.subi %n, %c1 : index
%in = bufferization.to_memref %p0 : $in_memref
%in_flat = memref.reinterpret_cast %in to offset: [0], sizes: [$in_count], strides: [1] : $in_memref to $in_flat
%out = memref.alloc() : $out_memref
%out_flat = memref.reinterpret_cast %out to offset: [0], sizes: [$out_count], strides: [1] : $out_memref to $out_flat
scf.for %o = %c0 to %total step %span {
  scf.for %i = %c0 to %inner step %c1 {
    %base = arith.addi %o, %i : index
    $body
  }
}
%result = bufferization.to_tensor %out restrict writable : $out_memref
return %result : $out_tensor

//// axis
// One dimension: is it the axis, how long is it, and how far apart do its elements lie?
%d$k = arith.constant $k : index
%size$k = arith.constant $size : index
%behind$k = arith.constant $behind : index
%is$k = arith.cmpi eq, %axis, %d$k : index
%n_$next = arith.select %is$k, %size$k, %n_$k : index
%inner_$next = arith.select %is$k, %behind$k, %inner_$k : index

//// triton_scan
%start = arith.constant $start : $wide
%end = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %start) -> ($wide) {
  %back = arith.subi %last, %k : index
  %where = arith.select %p2, %back, %k : index
  %off = arith.muli %where, %inner : index
  %at = arith.addi %base, %off : index
  %x = memref.load %in_flat[%at] : $in_flat
  %w = $widen %x : $in_element to $wide
  %next = arith.$operation %sum, %w : $wide
  %y = $narrow %next : $wide to $in_element
  memref.store %y, %out_flat[%at] : $in_flat
  scf.yield %next : $wide
}

//// triton_sort
scf.for %k = %c0 to %n step %c1 {
  %off_k = arith.muli %k, %inner : index
  %at_k = arith.addi %base, %off_k : index
  %x = memref.load %in_flat[%at_k] : $in_flat
  memref.store %x, %out_flat[%at_k] : $out_flat
}
scf.for %k = %c0 to %n step %c1 {
  %after = arith.addi %k, %c1 : index
  %off_k = arith.muli %k, %inner : index
  %at_k = arith.addi %base, %off_k : index
  scf.for %j = %after to %n step %c1 {
    %off_j = arith.muli %j, %inner : index
    %at_j = arith.addi %base, %off_j : index
    %a = memref.load %out_flat[%at_k] : $in_flat
    %b = memref.load %out_flat[%at_j] : $in_flat
    %up = arith.$compare, %b, %a : $in_element
    %down = arith.$compare, %a, %b : $in_element
    %swap = arith.select %p2, %down, %up : i1
    %first = arith.select %swap, %b, %a : $in_element
    %second = arith.select %swap, %a, %b : $in_element
    memref.store %first, %out_flat[%at_k] : $in_flat
    memref.store %second, %out_flat[%at_j] : $in_flat
  }
}

//// triton_flip
scf.for %k = %c0 to %n step %c1 {
  %back = arith.subi %last, %k : index
  %off_k = arith.muli %k, %inner : index
  %at_k = arith.addi %base, %off_k : index
  %off_b = arith.muli %back, %inner : index
  %at_b = arith.addi %base, %off_b : index
  %x = memref.load %in_flat[%at_b] : $in_flat
  memref.store %x, %out_flat[%at_k] : $in_flat
}

//// triton_gather
// The rows are those of the result, which is as long as the indices; those of the source may be longer.
%index = bufferization.to_memref %p1 : $index_memref
%index_flat = memref.reinterpret_cast %index to offset: [0], sizes: [$index_count], strides: [1]
  : $index_memref to $index_flat
%row = arith.divsi %o, %span : index
%rows = arith.divsi %total, %span : index
%in_total = arith.constant $in_count : index
%long_span = arith.divsi %in_total, %rows : index
%long_o = arith.muli %row, %long_span : index
%long_base = arith.addi %long_o, %i : index
scf.for %k = %c0 to %n step %c1 {
  %off_k = arith.muli %k, %inner : index
  %at_k = arith.addi %base, %off_k : index
  %which = memref.load %index_flat[%at_k] : $index_flat
  %index_at = arith.index_cast %which : $index_element to index
  %off_s = arith.muli %index_at, %inner : index
  %at_s = arith.addi %long_base, %off_s : index
  %x = memref.load %in_flat[%at_s] : $in_flat
  memref.store %x, %out_flat[%at_k] : $out_flat
}

//// first_and_rest
// Of what is reduced along an axis.
${name}_first$number = tensor.extract_slice $value[$start] [$one] [$steps] : $kind to $result
${name}_rest$number = tensor.extract_slice $value[$second] [$others] [$steps] : $kind to $rest

//// wide_sum
${name}_in = arith.extf $values : $kinds to $wide_kinds
${name}_init = arith.extf $inits : $results to $wide_results
${name}_sum = linalg.reduce ins(${name}_in : $wide_kinds) outs(${name}_init : $wide_results) dimensions = [$axis]
  ($in: f32, $init: f32) {
    $sum = arith.$operation $in, $init : f32
    linalg.yield $sum : f32
  }
$name = arith.truncf ${name}_sum : $wide_results to $results

//// recip
%one = arith.constant 1.0 : $kind
%y = arith.divf %one, %p0 : $kind

//// relu
%zero = arith.constant 0.0 : $kind
%y = arith.maxnumf %p0, %zero : $kind

//// isnan
%y = arith.cmpf uno, %p0, %p0 : $given

//// isinf
%rest = arith.subf %p0, %p0 : $given
%not_finite = arith.cmpf uno, %rest, %rest : $given
%number = arith.cmpf oeq, %p0, %p0 : $given
%y = arith.andi %not_finite, %number : i1

//// ldexp
%two = arith.constant 2.0 : $kind
%power = math.powf %two, %p1 : $kind
%y = arith.mulf %p0, %power : $kind

//// ilogb
// In fp64: an fp32 logarithm of a number just below a power of two is rounded to the next exponent.
%wide = arith.extf %p0 : $kind to f64
%size = math.absf %wide : f64
%log = math.log2 %size : f64
%floor = math.floor %log : f64
%y = arith.truncf %floor : f64 to $kind

//// pow
%y = math.powf %p0, %p1 : $kind

//// powi
%y = math.ipowi %p0, %p1 : $kind

//// round
%y = math.round %p0 : $kind

//// atan
%y = math.atan %p0 : $kind

//// log1p
%y = math.log1p %p0 : $kind

//// tan
%y = math.tan %p0 : $kind

//// tanh
%y = math.tanh %p0 : $kind

//// buffers
// Buffers are a ring, behind headers of 16 bytes (next, previous): what a program leaves is freed after it.
// The lowered code aligns its buffers by itself.
llvm.mlir.global internal @ascend_ring() : !llvm.array<2 x ptr> {
  %u = llvm.mlir.zero : !llvm.array<2 x ptr>
  llvm.return %u : !llvm.array<2 x ptr>
}
llvm.mlir.global internal @ascend_fill(-1 : i32) : i32
llvm.func @malloc(i64) -> !llvm.ptr
llvm.func @free(!llvm.ptr)
llvm.func @memset(!llvm.ptr, i32, i64) -> !llvm.ptr
llvm.func internal @_mlir_memref_to_llvm_alloc(%size: i64) -> !llvm.ptr {
  %c16 = llvm.mlir.constant(16 : i64) : i64
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  %whole = llvm.add %size, %c16 : i64
  %new = llvm.call @malloc(%whole) : (i64) -> !llvm.ptr
  %next = llvm.load %ring : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %new : !llvm.ptr, !llvm.ptr
  %back = llvm.getelementptr %new[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %ring, %back : !llvm.ptr, !llvm.ptr
  llvm.store %new, %ring : !llvm.ptr, !llvm.ptr
  %next_back = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %new, %next_back : !llvm.ptr, !llvm.ptr
  %data = llvm.getelementptr %new[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %fill_at = llvm.mlir.addressof @ascend_fill : !llvm.ptr
  %fill = llvm.load %fill_at : !llvm.ptr -> i32
  %off = llvm.icmp "slt" %fill, %none : i32
  %count = llvm.select %off, %c0, %size : i1, i64
  %same = llvm.call @memset(%data, %fill, %count) : (!llvm.ptr, i32, i64) -> !llvm.ptr
  llvm.return %data : !llvm.ptr
}
llvm.func internal @_mlir_memref_to_llvm_free(%data: !llvm.ptr) {
  %old = llvm.getelementptr %data[-16] : (!llvm.ptr) -> !llvm.ptr, i8
  %back = llvm.getelementptr %old[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %next = llvm.load %old : !llvm.ptr -> !llvm.ptr
  %before = llvm.load %back : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %before : !llvm.ptr, !llvm.ptr
  %next_back = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %before, %next_back : !llvm.ptr, !llvm.ptr
  llvm.call @free(%old) : (!llvm.ptr) -> ()
  llvm.return
}
llvm.func internal @ascend_free_all() {
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  llvm.br ^head
^head:
  %first = llvm.load %ring : !llvm.ptr -> !llvm.ptr
  %empty = llvm.icmp "eq" %first, %ring : !llvm.ptr
  llvm.cond_br %empty, ^done, ^one
^one:
  %data = llvm.getelementptr %first[16] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.call @_mlir_memref_to_llvm_free(%data) : (!llvm.ptr) -> ()
  llvm.br ^head
^done:
  llvm.return
}

//// to_bf16
// gcc 12's libgcc has no conversion from fp32 to bf16.
llvm.func internal @__truncsfbf2(%x: f32) -> bf16 {
  %bits = llvm.bitcast %x : f32 to i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %half = llvm.mlir.constant(32767 : i32) : i32
  %nan = llvm.mlir.constant(32704 : i32) : i32
  %high = llvm.lshr %bits, %c16 : i32
  %odd = llvm.and %high, %c1 : i32
  %up = llvm.add %half, %odd : i32
  %sum = llvm.add %bits, %up : i32
  %rounded = llvm.lshr %sum, %c16 : i32
  %is_nan = llvm.fcmp "uno" %x, %x : f32
  %kept = llvm.select %is_nan, %nan, %rounded : i1, i32
  %short = llvm.trunc %kept : i32 to i16
  %y = llvm.bitcast %short : i16 to bf16
  llvm.return %y : bf16
}

//// division_s
// x / 0 is the limit of the sign of x, 0 / 0 is 0, x % 0 is x, and the lowest number by -1 is itself.
llvm.func internal @ascend_${operation}_$kind(%a: $kind, %b: $kind) -> $kind {
  %zero = llvm.mlir.constant(0 : $kind) : $kind
  %one = llvm.mlir.constant(1 : $kind) : $kind
  %none = llvm.mlir.constant(-1 : $kind) : $kind
  %low = llvm.mlir.constant($low : $kind) : $kind
  %high = llvm.mlir.constant($high : $kind) : $kind
  %by_zero = llvm.icmp "eq" %b, %zero : $kind
  %negates = llvm.icmp "eq" %b, %none : $kind
  %lowest = llvm.icmp "eq" %a, %low : $kind
  %over = llvm.and %negates, %lowest : i1
  %bad = llvm.or %by_zero, %over : i1
  %positive = llvm.icmp "sgt" %a, %zero : $kind
  %negative = llvm.icmp "slt" %a, %zero : $kind
  %bottom = llvm.select %negative, %low, %zero : i1, $kind
  %limit = llvm.select %positive, %high, %bottom : i1, $kind
  %safe = llvm.select %bad, %one, %b : i1, $kind
  %plain = llvm.$operation %a, %safe : $kind
  %r = llvm.select %by_zero, $instead, %plain : i1, $kind
  llvm.return %r : $kind
}

//// division_u
// x / 0 is all ones, and x % 0 is x.
llvm.func internal @ascend_${operation}_$kind(%a: $kind, %b: $kind) -> $kind {
  %zero = llvm.mlir.constant(0 : $kind) : $kind
  %one = llvm.mlir.constant(1 : $kind) : $kind
  %limit = llvm.mlir.constant(-1 : $kind) : $kind
  %by_zero = llvm.icmp "eq" %b, %zero : $kind
  %safe = llvm.select %by_zero, %one, %b : i1, $kind
  %plain = llvm.$operation %a, %safe : $kind
  %r = llvm.select %by_zero, $instead, %plain : i1, $kind
  llvm.return %r : $kind
}

//// pointer
// A memref of an address that was loaded from memory.
llvm.func internal @ascend_pointer_$element(%address: i64, %size: i64) -> !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)> {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %p = llvm.inttoptr %address : i64 to !llvm.ptr
  %0 = llvm.mlir.undef : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %1 = llvm.insertvalue %p, %0[0] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %2 = llvm.insertvalue %p, %1[1] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %3 = llvm.insertvalue %c0, %2[2] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %4 = llvm.insertvalue %size, %3[3, 0] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  %5 = llvm.insertvalue %c1, %4[4, 0] : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
  llvm.return %5 : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
}

//// slot
// An argument of the entry.
%at_$name = llvm.getelementptr %slots[$at] : (!llvm.ptr) -> !llvm.ptr, i8
%$name = llvm.load %at_$name : !llvm.ptr -> $kind

//// entry
// The first %end programs, counted with x fastest, of a grid of %gx, %gy and %gz. New buffers are filled with
// the byte %fill, unless it is negative. The compiler's own two buffers, a lock and a workspace, are zero; sizes
// of arguments are not read, as on the NPU, whose launcher has none.
llvm.mlir.global internal @ascend_own() {alignment = 64 : i64} : !llvm.array<8192 x i8> {
  %u = llvm.mlir.zero : !llvm.array<8192 x i8>
  llvm.return %u : !llvm.array<8192 x i8>
}
llvm.func @$entry(%slots: !llvm.ptr) {
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %own_size = llvm.mlir.constant(8192 : i64) : i64
  %zero = llvm.mlir.constant(0 : i32) : i32
  %a0 = llvm.mlir.addressof @ascend_own : !llvm.ptr
  %a1 = llvm.getelementptr %a0[4096] : (!llvm.ptr) -> !llvm.ptr, i8
  %cleared = llvm.call @memset(%a0, %zero, %own_size) : (!llvm.ptr, i32, i64) -> !llvm.ptr
  $loads
  %fill_at = llvm.mlir.addressof @ascend_fill : !llvm.ptr
  llvm.store %fill, %fill_at : i32, !llvm.ptr
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  %back = llvm.getelementptr %ring[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %ring, %ring : !llvm.ptr, !llvm.ptr
  llvm.store %ring, %back : !llvm.ptr, !llvm.ptr
  %wide = llvm.sext %gx : i32 to i64
  %high = llvm.sext %gy : i32 to i64
  llvm.br ^head(%c0 : i64)
^head(%id: i64):
  %more = llvm.icmp "slt" %id, %end : i64
  llvm.cond_br %more, ^program, ^done
^program:
  %lx = llvm.srem %id, %wide : i64
  %rest = llvm.sdiv %id, %wide : i64
  %ly = llvm.srem %rest, %high : i64
  %lz = llvm.sdiv %rest, %high : i64
  %x = llvm.trunc %lx : i64 to i32
  %y = llvm.trunc %ly : i64 to i32
  %z = llvm.trunc %lz : i64 to i32
  llvm.call @$kernel($given, %gx, %gy, %gz, %x, %y, %z)
    : ($types, i32, i32, i32, i32, i32, i32) -> ()
  llvm.call @ascend_free_all() : () -> ()
  %next = llvm.add %id, %c1 : i64
  llvm.br ^head(%next : i64)
^done:
  llvm.return
}
