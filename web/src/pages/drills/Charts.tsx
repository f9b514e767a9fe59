import { useMemo } from 'react'
import type { DrillAbort } from '../../api/schema.gen'
import { millis, percent } from '../../format/format'
import { dollars } from '../../format/money'
import { Chart } from '../../ui/Chart'
import { limitsOf, topTier, type Baseline, type Lines } from './drills'

/** The course of a drill: before, during and after, with what ends it. */
export function Charts({ lines, abort, baseline }: { lines: Lines; abort: Partial<DrillAbort> | undefined; baseline: Baseline | undefined }) {
  const drawn = useMemo(() => {
    const l = limitsOf(abort)
    const top = topTier(baseline, l.ttftFactor.over)
    const first = { label: `ends after ${l.ttftFactor.seconds} s over`, value: top.most }
    return {
      moved: [{ label: 'ordered', colour: 'wanted', values: lines.shifted }, { label: 'answered elsewhere', colour: 'observed', values: lines.away }],
      ttft: [{ label: `p95${top.tier ? ` of ${top.tier}` : ''}`, colour: 'move', values: lines.ttft }],
      errors: [{ label: 'lost or broken', colour: 'bad', values: lines.errors }],
      full: [{ label: 'fullest that stays', colour: 'move', values: lines.fullest }],
      money: [{ label: 'a minute', colour: 'hold', values: lines.perMinute }],
      ttftLimits: top.most > 0 ? [first] : [],
      errorLimits: [{ label: `ends after ${l.errorIncrease.seconds} s over`, value: (baseline?.errors ?? 0) + l.errorIncrease.over }],
      fullLimits: [{ label: `ends after ${l.soft.seconds} s over`, value: l.soft.over }],
    }
  }, [lines, abort, baseline])
  const shared = { times: lines.times, marks: lines.marks, sync: 'drill' }
  return (
    <div className="grid gap-3 pb-2 md:grid-cols-2 2xl:grid-cols-3">
      <Chart {...shared} label="Traffic shifted" lines={drawn.moved} format={percent} />
      <Chart {...shared} label="First tokens" lines={drawn.ttft} limits={drawn.ttftLimits} format={(n) => (n === 0 ? '0' : millis(n))} />
      <Chart {...shared} label="Requests that failed" lines={drawn.errors} limits={drawn.errorLimits} format={(n) => `${(n * 100).toLocaleString('en', { maximumFractionDigits: 2 })} %`} />
      <Chart {...shared} label="Load of what stays" lines={drawn.full} limits={drawn.fullLimits} format={percent} />
      <Chart {...shared} label="Cost" lines={drawn.money} format={dollars} />
    </div>
  )
}
