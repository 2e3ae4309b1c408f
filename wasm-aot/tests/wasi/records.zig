//! Zig: slices, errors, generics of compile time, its own allocator, and its own standard streams.
const std = @import("std");

const Record = struct {
    name: []const u8,
    count: u32,

    fn before(_: void, a: Record, b: Record) bool {
        return if (a.count != b.count) a.count > b.count else std.mem.lessThan(u8, a.name, b.name);
    }
};

const Failure = error{ Empty, TooLong };

fn parsed(text: []const u8) Failure!u32 {
    if (text.len == 0) return error.Empty;
    var sum: u32 = 0;
    for (text) |byte| {
        const more = std.math.mul(u32, sum, 7) catch return error.TooLong;
        sum = std.math.add(u32, more, byte) catch return error.TooLong;
    }
    return sum;
}

fn table(comptime size: usize) [size]u32 {
    @setEvalBranchQuota(10000);
    var primes: [size]u32 = undefined;
    var found: usize = 0;
    var candidate: u32 = 2;
    while (found < size) : (candidate += 1) {
        for (primes[0..found]) |prime| {
            if (candidate % prime == 0) break;
        } else {
            primes[found] = candidate;
            found += 1;
        }
    }
    return primes;
}

pub fn main() !void {
    const primes = comptime table(50);
    std.debug.print("{d} {d}\n", .{ primes[0], primes[49] });

    var memory: [1 << 16]u8 = undefined;
    var fixed = std.heap.FixedBufferAllocator.init(&memory);
    const allocator = fixed.allocator();
    var counted = std.StringHashMap(u32).init(allocator);
    var words = std.mem.tokenizeScalar(u8, "to be or not to be that is the question to be answered", ' ');
    while (words.next()) |word| {
        const entry = try counted.getOrPutValue(word, 0);
        entry.value_ptr.* += 1;
    }
    const records = try allocator.alloc(Record, counted.count());
    var all = counted.iterator();
    for (records) |*record| {
        const entry = all.next().?;
        record.* = .{ .name = entry.key_ptr.*, .count = entry.value_ptr.* };
    }
    std.mem.sort(Record, records, {}, Record.before);
    for (records) |record| std.debug.print("{s}: {d}\n", .{ record.name, record.count });

    std.debug.print("{any} {any}\n", .{ parsed("") == error.Empty, parsed("a word that is much too long for this") == error.TooLong });
    std.debug.print("{d}\n", .{try parsed("abc")});
    std.debug.print("{d:.6} {x}\n", .{ @sqrt(2.0), std.hash.Crc32.hash("check") });
    std.process.exit(5);
}
